"""Tells from the ledger's events, or from the commits of batches, where a pipeline's reading began. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from include.protocol.batch import Batch
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


def topics_started(batch: Batch, next_offsets: Mapping[TopicPartition, int], known: Set[str]) -> TopicsStarted | None:
    """How reading began in the topics that a landed batch was the first to read; None if it read none for the first
    time. A ledger that was lost gets it back from there.

    Args:
        next_offsets: where its commit says to go on, in every partition. known: topics that were read before it.
    """
    new = {topic: id_ for topic, id_ in batch.topic_ids.items() if topic not in known}
    if not new:
        return None
    starts = {tp: offset for tp, offset in sorted(next_offsets.items()) if tp.topic in new}
    starts |= {one.topic_partition: one.start_offset for one in batch.ranges if one.topic in new}
    return TopicsStarted(
        generation=batch.generation,
        next_batch_id=batch.batch_id,
        start_offsets=starts,
        topic_ids=new,
        cluster_id=batch.cluster_id,
    )
