"""Where a pipeline's reading began, and what of that no source holds any more. Pure.

`began` tells it from the ledger's events. A savepoint keeps it, since a pipeline that begins with it has other events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ranges import OffsetRange, TopicPartition, offsets_from_json, offsets_to_json


@dataclass(frozen=True)
class FirstOffsets:
    """Where reading began in the current topics, as far as it is recorded; and what the tables cannot be made of
    again."""

    offsets: Mapping[TopicPartition, int]
    skipped: tuple[OffsetRange, ...] = ()  # people gave them up
    recreated: tuple[str, ...] = ()  # the table still has rows of the topics that were called so before
    topic_ids: Mapping[str, str] | None = None  # None: those that the pipeline reads

    def lost_before(self, tp: TopicPartition, offset: int) -> OffsetRange | None:
        """What was read, and is not read again from an offset on; None: nothing, or people gave it up."""
        start = self.offsets.get(tp, 0)
        lost = OffsetRange(*tp, start, offset) if start < offset else None
        return None if lost is None or any(_covers(given_up, lost) for given_up in self.skipped) else lost

    def lost_before_all(self, offsets: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """The same for several partitions, sorted."""
        return [lost for tp, offset in sorted(offsets.items()) if (lost := self.lost_before(tp, offset)) is not None]

    def to_json(self) -> JsonObject:
        return {
            "offsets": offsets_to_json(self.offsets),
            "skipped": [one.to_json() for one in self.skipped],
            "recreated": list(self.recreated),
            "topic_ids": self.topic_ids and dict(self.topic_ids),
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        skipped = tuple(OffsetRange.from_json(one) for one in data["skipped"])
        return cls(offsets_from_json(data["offsets"]), skipped, tuple(data["recreated"]), data["topic_ids"])


def _covers(outer: OffsetRange, inner: OffsetRange) -> bool:
    same = outer.topic_partition == inner.topic_partition
    return same and outer.start_offset <= inner.start_offset and inner.end_offset <= outer.end_offset
