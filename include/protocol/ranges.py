"""Offset ranges: the half-open pieces of Kafka partitions that batches are made of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from include.protocol.json_data import JsonMapping, JsonObject


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, order=True)
class OffsetRange:
    """`[start_offset, end_offset)` of one partition.

    It holds at most `width` records: compaction, transaction markers and aborted records leave gaps in the offsets by
    design.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.start_offset < self.end_offset:
            raise ValueError(f"expected a range with something in it, END exclusive; found {self.as_argument()}")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def width(self) -> int:
        return self.end_offset - self.start_offset

    def to_json(self) -> JsonObject:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(data["topic"], data["partition"], data["start_offset"], data["end_offset"])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `TOPIC-PARTITION:START-END`, END exclusive. A ValueError says what is wrong."""
        match = re.fullmatch(r"(.+)-(\d{1,9}):(\d{1,18})-(\d{1,18})", text)
        if match is None:
            raise ValueError(f"expected TOPIC-PARTITION:START-END, like orders-0:120-150; found {text[:200]!r}")
        topic, *numbers = match.groups()
        return cls(topic, *map(int, numbers))

    def as_tuple(self) -> tuple[str, int, int, int]:
        """The fields in order, as `OffsetRange` takes them."""
        return self.topic, self.partition, self.start_offset, self.end_offset

    def as_argument(self) -> str:
        """The range in the form that `parse` reads."""
        return f"{self.topic}-{self.partition}:{self.start_offset}-{self.end_offset}"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start_offset}, {self.end_offset})"


def joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The same offsets in as few ranges as possible, sorted."""
    found: list[OffsetRange] = []
    for r in sorted(ranges):
        last = found[-1] if found else None
        if last and last.topic_partition == r.topic_partition and r.start_offset <= last.end_offset:
            found[-1] = OffsetRange(*r.topic_partition, last.start_offset, max(last.end_offset, r.end_offset))
        else:
            found.append(r)
    return found


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> list[JsonObject]:
    """Offsets by partition as JSON data, sorted."""
    return [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in sorted(offsets.items())]


def offsets_from_json(data: Iterable[JsonMapping]) -> dict[TopicPartition, int]:
    return {TopicPartition(o["topic"], o["partition"]): o["offset"] for o in data}


def offsets_as_argument(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as `TOPIC-PARTITION:OFFSET,...`, sorted. It is the shortest form, since a command line has a limit."""
    return ",".join(f"{tp}:{offset}" for tp, offset in sorted(offsets.items()))


def offsets_from_argument(text: str) -> dict[TopicPartition, int]:
    """The inverse of `offsets_as_argument`. A ValueError says what is wrong."""
    offsets: dict[TopicPartition, int] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(.+)-(\d+):(\d+)", part)
        if match is None:
            raise ValueError(f"expected TOPIC-PARTITION:OFFSET, like orders-0:120; found {part!r}")
        offsets[TopicPartition(match[1], int(match[2]))] = int(match[3])
    return offsets


def fingerprint(
    ranges: Iterable[OffsetRange],
    topic_ids: Mapping[str, str],
    cluster_id: str,
    pins: JsonMapping | None = None,
) -> str:
    """The identity of a batch's input: the SHA-256, in hex, of its ranges, topic ids, cluster id and pins.

    A re-created topic has another id, so equal ranges of it are another input.

    Args:
        pins: the tables that rows are computed with, as JSON data; None: the first form of a fingerprint, without pins.
    """
    ordered = sorted(ranges)
    topics = {topic: topic_ids[topic] for topic in sorted({r.topic for r in ordered})}
    canonical: JsonObject = {"cluster_id": cluster_id, "topic_ids": topics, "ranges": [r.to_json() for r in ordered]}
    if pins is not None:
        canonical["pins"] = dict(pins)
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
