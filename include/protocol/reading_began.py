"""Tells from the ledger's events where a pipeline's reading began. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import LOSS, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition


def reading_began(events: Iterable[Event], state: LedgerState) -> FirstOffsets:
    """Where reading began in the current topics.

    Args:
        events: of the whole ledger. state: after them.
    """
    first: dict[TopicPartition, int] = {}
    skipped: list[OffsetRange] = []
    recreated: set[str] = set()
    for event in events:
        match event:
            case TopicsStarted():
                starts, topic_ids = event.start_offsets, event.topic_ids
            case GenerationStarted():
                # A table that took the target's place has no row of a topic that is gone.
                recreated = set() if event.is_promotion else recreated | {*event.recreated}
                skipped += event.skipped
                if event.first is not None:
                    starts, topic_ids = event.first.offsets, event.first.topic_ids or event.topic_ids
                    skipped += event.first.skipped
                    recreated |= {*event.first.recreated}
                else:
                    anew = {*event.start_offsets} if event.origin == LOSS else set()
                    anew |= {tp for tp in event.start_offsets if tp.topic in event.recreated}
                    starts, topic_ids = {tp: event.start_offsets[tp] for tp in anew}, event.topic_ids
            case _:
                continue
        same = {tp: n for tp, n in starts.items() if topic_ids.get(tp.topic) == state.topic_ids.get(tp.topic)}
        # A topic that was taken out of the pipeline file and put back counts from its first start.
        first |= {tp: min(n, first.get(tp, n)) for tp, n in same.items()}
    return FirstOffsets(first, tuple(skipped), tuple(sorted(recreated)), state.topic_ids)
