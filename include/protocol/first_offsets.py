"""Where a pipeline's reading began, and what of that no source holds any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from include.protocol.ledger_events import LOSS, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class FirstOffsets:
    """Where reading began in the current topics, as far as it is recorded; and the ranges that people gave up."""

    offsets: dict[TopicPartition, int]
    skipped: tuple[OffsetRange, ...]

    @classmethod
    def of(cls, events: Iterable[Event], state: LedgerState) -> FirstOffsets:
        """Args: events: of the whole ledger. state: after them."""
        first: dict[TopicPartition, int] = {}
        skipped: list[OffsetRange] = []
        for event in events:
            match event:
                case TopicsStarted():
                    starts = event.start_offsets
                case GenerationStarted():
                    anew = {*event.start_offsets} if event.origin == LOSS else set()
                    anew |= {tp for tp in event.start_offsets if tp.topic in event.recreated}
                    starts = {tp: event.start_offsets[tp] for tp in anew}
                    skipped += event.skipped
                case _:
                    continue
            same = {tp: n for tp, n in starts.items() if event.topic_ids.get(tp.topic) == state.topic_ids.get(tp.topic)}
            # A topic that was taken out of the pipeline file and put back counts from its first start.
            first |= {tp: min(n, first.get(tp, n)) for tp, n in same.items()}
        return cls(first, tuple(skipped))

    def lost_before(self, tp: TopicPartition, offset: int) -> OffsetRange | None:
        """What was read, and is not read again from an offset on; None: nothing, or people gave it up."""
        start = self.offsets.get(tp, 0)
        lost = OffsetRange(*tp, start, offset) if start < offset else None
        return None if lost is None or any(_covers(given_up, lost) for given_up in self.skipped) else lost

    def lost_before_all(self, offsets: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """The same for several partitions, sorted."""
        return [lost for tp, offset in sorted(offsets.items()) if (lost := self.lost_before(tp, offset)) is not None]


def _covers(outer: OffsetRange, inner: OffsetRange) -> bool:
    same = outer.topic_partition == inner.topic_partition
    return same and outer.start_offset <= inner.start_offset and inner.end_offset <= outer.end_offset
