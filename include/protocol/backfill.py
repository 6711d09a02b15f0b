"""Backfills: offset ranges that are read again beside the live pipeline, in chunks that may land in any order. Pure.

Backfill n of a pipeline is its generation -n. Its rows, quarantined records and commits carry that number, and none of
its work counts as progress of the live pipeline. Every chunk has its own marker, so every chunk lands once, in any
order. Changes are order-proof (I9): a chunk never replaces a newer row.

A replay is a backfill that reads quarantined records instead of offsets from Kafka. It reads a copy that was made when
it was planned, so its input is frozen too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, Self

from include.protocol.batch import FORM, Batch, Pins, pins_from_json, pins_to_json
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ranges import OffsetRange, TopicPartition, offsets_from_json, offsets_to_json

Chunks = tuple[tuple[OffsetRange, ...], ...]
Into = Literal["same", "new"]
BackfillOutcome = Literal["applied", "swapped", "cancelled"]


@dataclass(frozen=True)
class Backfill:
    """A backfill as it was recorded. Its chunks are frozen, as a batch's ranges are (I1)."""

    pipeline: str
    number: int  # 1, 2 ... within the pipeline
    request_id: str  # a DAG run's id, for example: the same request is recorded once
    chunks: Chunks
    topic_ids: Mapping[str, str]
    cluster_id: str
    into: Into  # the target itself, or a new table that takes its place at the end
    next_offsets: Mapping[TopicPartition, int]  # where the live pipeline continues after a promotion; empty without one
    reason: str
    requested_by: str
    records: str | None = None  # for a replay: the table with its records, in the folder of the pipeline's backfills
    pins: Pins = field(default_factory=dict)  # as in `Batch`
    from_archive: bool = False  # its records come from the archive, not from Kafka
    records_total: int | None = None  # for a replay: how many records; its ranges span others, too
    form: int = FORM  # as in `Batch`
    deliver: str | None = None  # as in `Batch`; with a promotion as in `GenerationStarted`

    @property
    def generation(self) -> int:
        return -self.number

    @property
    def records_max(self) -> int:
        if self.records_total is not None:
            return self.records_total
        return sum(r.width for r in chain.from_iterable(self.chunks))

    def batch(self, chunk: int) -> Batch:
        """Chunk `chunk` as a batch. Raises TerminalError if there is no such chunk."""
        if not 0 <= chunk < len(self.chunks):
            raise TerminalError(
                what="the backfill has no such chunk",
                where=f"{self.pipeline} backfill {self.number}",
                expected=f"0 to {len(self.chunks) - 1}",
                found=str(chunk),
                action=f"see `lakemark backfill {self.pipeline} --list`",
            )
        return Batch(
            pipeline=self.pipeline,
            generation=self.generation,
            batch_id=chunk,
            ranges=self.chunks[chunk],
            topic_ids=self.topic_ids,
            cluster_id=self.cluster_id,
            pins=self.pins,
            form=self.form,
            deliver=self.deliver,
        )

    def to_json(self) -> JsonObject:
        """The backfill as JSON data. A range is a list of its four fields, since there may be many ranges."""
        return {
            "pipeline": self.pipeline,
            "number": self.number,
            "request_id": self.request_id,
            "chunks": [[list(r.as_tuple()) for r in ranges] for ranges in self.chunks],
            "topic_ids": dict(self.topic_ids),
            "cluster_id": self.cluster_id,
            "into": self.into,
            "next_offsets": offsets_to_json(self.next_offsets),
            "reason": self.reason,
            "requested_by": self.requested_by,
            "records": self.records,
            "records_total": self.records_total,
            "from_archive": self.from_archive,
            "pins": pins_to_json(self.pins),
            **({"form": self.form} if self.form > 1 else {}),
            **({"deliver": self.deliver} if self.deliver else {}),
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        chunks = tuple(tuple(OffsetRange(*parts) for parts in ranges) for ranges in data["chunks"])
        offsets, pins = offsets_from_json(data["next_offsets"]), pins_from_json(data.get("pins"))
        return cls(**{"form": 1, **data, "chunks": chunks, "next_offsets": offsets, "pins": pins})
