"""A batch: a frozen set of offset ranges with an id, and the marker that names it in every table it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ranges import OffsetRange, fingerprint

# No attempt has a batch id this high: a generation whose marker has this value is fenced (I5).
FENCE = 2**63 - 1
# The form of a batch on disk. 1: its fingerprint leaves out the pins, and its marker is the batch id in every table.
# 2: its fingerprint has them, and its marker in tables before the point is a stamp (see `participants`).
FORM = 2


def app_id(pipeline: str, generation: int) -> str:
    """The `appId` of Delta's `txn` action; its `version` is the batch id. Delta protocol, "Transaction
    Identifiers": versions of one appId only grow."""
    return f"lakemark/{pipeline}/g{generation}"


def ended_id(pipeline: str, generation: int) -> str:
    """The `appId` whose `version` tells where a table before the point stood when its generation was fenced. The fence
    itself hides that."""
    return f"{app_id(pipeline, generation)}/ended"


def begun_id(pipeline: str, backfill: int) -> str:
    """The `appId` of which the target has a number once a backfill's chunks may run."""
    return f"lakemark/{pipeline}/b{backfill}/begun"


class BatchKey(NamedTuple):
    """Identifies a batch of a pipeline. It is all that tasks pass to each other."""

    generation: int  # negative: a backfill's number
    batch_id: int  # for a backfill: the chunk's number


class Pin(NamedTuple):
    """A version of a table that a batch's rows are computed with."""

    version: int
    table_id: str | None = None  # None: an older Lakemark recorded it

    def to_json(self) -> JsonObject | int:
        return self.version if self.table_id is None else self._asdict()

    @classmethod
    def from_json(cls, data: JsonMapping | int) -> Self:
        return cls(data) if isinstance(data, int) else cls(**data)


Pins = Mapping[str, Pin]  # by the tables' names in the pipeline file


def pins_to_json(pins: Pins) -> JsonObject:
    return {name: pin.to_json() for name, pin in pins.items()}


def pins_from_json(data: JsonMapping | None) -> dict[str, Pin]:
    return {name: Pin.from_json(pin) for name, pin in (data or {}).items()}


@dataclass(frozen=True)
class Batch:
    """Batch `batch_id` of one generation of a pipeline, as planned. Once recorded, it is never planned again (I1).

    A batch without ranges is a repair: it reads nothing, and mends what is not where the last batch has left it.
    """

    pipeline: str
    generation: int
    batch_id: int
    ranges: tuple[OffsetRange, ...]  # sorted, at most one per partition, none of them empty
    topic_ids: Mapping[str, str]  # topic -> Kafka's id for it (KIP-516)
    cluster_id: str
    pins: Pins = field(default_factory=dict)  # the tables that its rows are computed with, so that all attempts agree
    mends: tuple[str, ...] = ()  # participants that were not where the last batch had left them when it was planned
    form: int = FORM
    deliver: str | None = None  # what sinks get of it, as in `GenerationStarted`; None: all

    def __post_init__(self) -> None:
        partitions = [r.topic_partition for r in self.ranges]
        if partitions != sorted(set(partitions)) or not (partitions or self.mends):
            raise ValueError(f"ranges must be sorted, one per partition, at least one unless it mends: {self.ranges}")

    @property
    def key(self) -> BatchKey:
        return BatchKey(self.generation, self.batch_id)

    @property
    def is_chunk(self) -> bool:
        """Whether this is a chunk of a backfill, which has its own marker and follows no batch (see `backfill`)."""
        return self.generation < 0

    @property
    def app_id(self) -> str:
        if self.is_chunk:
            return f"lakemark/{self.pipeline}/b{-self.generation}/{self.batch_id}"
        return app_id(self.pipeline, self.generation)

    @cached_property
    def fingerprint(self) -> str:
        pins = pins_to_json(self.pins) if self.form > 1 else None
        return fingerprint(self.ranges, self.topic_ids, self.cluster_id, pins)

    @property
    def width(self) -> int:
        """The most records that the batch can hold."""
        return sum(r.width for r in self.ranges)

    def to_json(self) -> JsonObject:
        return {
            "pipeline": self.pipeline,
            "generation": self.generation,
            "batch_id": self.batch_id,
            "ranges": [r.to_json() for r in self.ranges],
            "topic_ids": dict(self.topic_ids),
            "cluster_id": self.cluster_id,
            "fingerprint": self.fingerprint,
            **({"pins": pins_to_json(self.pins)} if self.pins else {}),
            **({"mends": list(self.mends)} if self.mends else {}),
            **({"form": self.form} if self.form > 1 else {}),
            **({"deliver": self.deliver} if self.deliver else {}),
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(
            pipeline=data["pipeline"],
            generation=data["generation"],
            batch_id=data["batch_id"],
            ranges=tuple(OffsetRange.from_json(r) for r in data["ranges"]),
            topic_ids=dict(data["topic_ids"]),
            cluster_id=data["cluster_id"],
            pins=pins_from_json(data.get("pins")),
            mends=tuple(data.get("mends") or ()),
            form=data.get("form", 1),
            deliver=data.get("deliver"),
        )

    def __str__(self) -> str:
        if self.is_chunk:
            return f"{self.pipeline} backfill {-self.generation} chunk {self.batch_id}"
        return f"{self.pipeline} generation {self.generation} batch {self.batch_id}"
