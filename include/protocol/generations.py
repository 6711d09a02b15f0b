"""How one generation of a pipeline ends and the next one begins: reset, skip, rebuild. Pure.

A planned batch never changes (I1), and within a generation only batches move offsets. Anything else that moves offsets
starts a new generation. A fence ends the old one: a marker in the target that no batch can exceed, so an attempt that
still works in the old generation can never land (I5). The fence is a compare-and-swap on the marker that the decision
was based on. Its commit carries the decision, so that an interrupted reset can be completed as it was decided, and a
lost ledger can be rebuilt (I10).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from include.protocol.backfill import Backfill
from include.protocol.commit_metadata import FENCE_ROLE, FORMAT, own_metadata
from include.protocol.deliveries import telling
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import COMMITTED, EARLIEST, LOSS, PROMOTION, GenerationStarted
from include.protocol.ledger_rows import generation_from_json, generation_to_json
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent, expired, next_offsets, verify_topics
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit

Origin = Literal["committed", "earliest"] | int  # an int: the batch to begin with
# A partition, its topic's id, and the first offset that a table knows of.
First = tuple[TopicPartition, str | None, int]


def restart(
    pipeline: str,
    state: LedgerState,
    source: SourceExtent,
    origin: Origin,
    kafka_order_decides: bool,
    reason: str,
    started_by: str,
    deliver: str | None = None,
) -> GenerationStarted:
    """The generation after `state`'s, which reads from `origin` on: after the last committed batch, from the earliest
    record that Kafka holds, or from the start of a batch of this generation.

    Only "earliest" accepts a re-created topic. No record is passed over: `skip` is for that.

    Args:
        kafka_order_decides: the pipeline has no `order_by`. Then the offsets of a re-created topic would look older
            than those of the rows in the table.
        deliver: see `GenerationStarted`.

    Raises:
        TopicRecreated, OffsetsExpired: records would be passed over. TerminalError: there is no such batch.
    """
    if origin == "earliest":
        offsets = _earliest(pipeline, state, source, kafka_order_decides)
        return telling(_next(state, source, offsets, EARLIEST, reason=reason, started_by=started_by), state, deliver)
    verify_topics(pipeline, _still_read(state, source), state.cluster_id, source)
    first = state.committed_through + 1 if origin == "committed" else origin
    if not 0 <= first <= state.committed_through + 1:
        raise TerminalError(
            what="there is no such batch to begin with",
            where=f"{pipeline} generation {state.generation}",
            expected=f"a batch from 0 to {state.committed_through + 1}: a committed one, or the one after them",
            found=f"batch {first}",
            action=f"see `lakemark ledger show {pipeline}`",
        )
    name = COMMITTED if origin == "committed" else f"batch {origin}"
    offsets = state.offsets_before(first)
    return telling(_next(state, source, offsets, name, reason=reason, started_by=started_by), state, deliver)


def skip(
    pipeline: str,
    state: LedgerState,
    source: SourceExtent,
    ranges: Sequence[OffsetRange],
    reason: str,
    started_by: str,
) -> GenerationStarted:
    """The generation that continues after the committed batches and never reads `ranges`.

    Raises:
        TerminalError: a range does not start where the pipeline stands, or ends beyond Kafka's end offset.
        TopicRecreated: see `restart`.
    """
    verify_topics(pipeline, _still_read(state, source), state.cluster_id, source)
    offsets = state.committed_offsets
    for r in ranges:
        extent = source.partitions.get(r.topic_partition)
        stands_at = offsets.get(r.topic_partition, 0 if r.topic in state.topic_ids else None)
        if extent is None or stands_at is None:
            raise _no_skip(pipeline, r, "a partition that this pipeline reads", "none")
        if r.start_offset != stands_at:
            raise _no_skip(pipeline, r, f"a range that starts where the pipeline stands, at {stands_at}", str(r))
        if r.end_offset > extent.end_offset:
            raise _no_skip(pipeline, r, f"an end of at most {extent.end_offset}, Kafka's own", str(r))
        offsets[r.topic_partition] = r.end_offset
    started = _next(state, source, offsets, origin="committed", reason=reason, started_by=started_by)
    return replace(started, skipped=tuple(sorted(ranges)))


def rebuild(
    generation: int,
    landed: LandedCommit | None,
    begun: GenerationStarted | None,
    offsets_of_rows: Mapping[TopicPartition, int],
    source: SourceExtent,
    reason: str,
    started_by: str,
) -> GenerationStarted:
    """The generation that follows `generation` after its ledger was lost. The target's commits or rows say where it
    starts.

    Args:
        landed: the commit that the target's marker names, if Delta's log clean-up has left it.
        begun: how `generation` began, as the previous generation's fence records it. If a batch of it has landed, that
            one says the offsets.
        offsets_of_rows: one past the highest offset among the rows of that generation, by partition. This is never
            beyond what was applied. At worst some records are read again, and changes are order-proof (I9).
    """
    if landed is not None:
        batch, offsets = landed.metadata.batch, landed.metadata.next_offsets
        return GenerationStarted(
            generation=generation + 1,
            start_offsets=offsets,
            topic_ids=batch.topic_ids,
            cluster_id=batch.cluster_id,
            origin="commit metadata",
            reason=reason,
            started_by=started_by,
            told=begun.told if begun is not None else {},
        )
    if begun is not None:
        return replace(begun, generation=generation + 1, origin="commit metadata", reason=reason, started_by=started_by)
    offsets = {tp: offsets_of_rows.get(tp, 0) for tp in source.partitions}
    return GenerationStarted(
        generation=generation + 1,
        start_offsets=offsets,
        topic_ids=dict(source.topic_ids),
        cluster_id=source.cluster_id,
        origin="rows",
        reason=reason,
        started_by=started_by,
    )


def no_later_than(started: GenerationStarted, offsets: Mapping[TopicPartition, int]) -> GenerationStarted:
    """The generation, but it begins no later than these offsets: a target that went back may stand further than a
    generation that was about to fill another table."""
    starts = {tp: min(at, offsets.get(tp, at)) for tp, at in started.start_offsets.items()}
    return replace(started, start_offsets=starts)


def after_a_loss(
    generation: int, read: Iterable[First], source: SourceExtent, reason: str, started_by: str
) -> GenerationStarted:
    """The generation that a ledger begins with if other tables of the pipeline hold batches that it does not know: the
    ledger was lost, and the target too, or no batch had reached it.

    It reads all that the source holds, whatever the file says about a start: where reading once began, nobody knows any
    more. Where the source no longer holds all that those tables know of, it starts where they do: so the pipeline stops
    there, as it does at any record that it cannot read (I7).

    Args:
        generation: the newest one that any table knows. read: what the tables know of.
    """
    first = {tp: extent.log_start_offset for tp, extent in source.partitions.items()}
    for tp, topic_id, offset in read:
        if tp in first and topic_id == source.topic_ids.get(tp.topic):
            first[tp] = min(first[tp], offset)
    return GenerationStarted(
        generation=generation + 1,
        start_offsets=first,
        topic_ids=dict(source.topic_ids),
        cluster_id=source.cluster_id,
        origin=LOSS,
        reason=reason,
        started_by=started_by,
    )


def take_over(backfill: Backfill, state: LedgerState, source: SourceExtent, started_by: str) -> GenerationStarted:
    """The generation after a backfill whose table takes the target's place. It continues where the backfill was
    planned; or where the pipeline stands, if it has gone back further since, because a table beside the target needs
    those records again.

    Raises:
        TopicRecreated, OffsetsExpired: Kafka does not hold what follows.
    """
    verify_topics(backfill.pipeline, backfill.topic_ids, backfill.cluster_id, source)
    stands = state.committed_in(backfill.topic_ids)
    started = GenerationStarted(
        generation=state.generation + 1,
        start_offsets={tp: min(offset, stands.get(tp, offset)) for tp, offset in backfill.next_offsets.items()},
        topic_ids=backfill.topic_ids,
        cluster_id=backfill.cluster_id,
        origin=f"{PROMOTION}{backfill.number}",
        reason=backfill.reason,
        started_by=started_by,
        deliver=backfill.deliver,
    )
    after = LedgerState(
        generation=started.generation,
        next_offsets=started.start_offsets,
        topic_ids=started.topic_ids,
        cluster_id=started.cluster_id,
    )
    next_offsets(backfill.pipeline, after, source)  # only for what it raises
    return started


def fence_metadata(pipeline: str, started: GenerationStarted) -> str:
    """`userMetadata` of the commit that fences the generation before `started`'s."""
    data = {
        "lakemark": FORMAT,
        "role": FENCE_ROLE,
        "pipeline": pipeline,
        "generation": started.generation - 1,
        "next": generation_to_json(started),
    }
    return json.dumps(data, separators=(",", ":"))


def fenced_for(text: str | None, pipeline: str) -> GenerationStarted | None:
    """The generation whose start a fence's `userMetadata` records; None if it is not from a fence of the pipeline."""
    data = own_metadata(text)
    if data is None or (data.get("role"), data.get("pipeline")) != (FENCE_ROLE, pipeline):
        return None
    return generation_from_json(data["generation"] + 1, data["next"])


def _next(
    state: LedgerState,
    source: SourceExtent,
    offsets: Mapping[TopicPartition, int],
    origin: str,
    reason: str,
    started_by: str,
) -> GenerationStarted:
    """The next generation, without topics that the pipeline no longer reads. New topics start by `TopicsStarted`."""
    known = {tp: offset for tp, offset in offsets.items() if tp.topic in source.topic_ids}
    topic_ids = {topic: id_ for topic, id_ in source.topic_ids.items() if topic in state.topic_ids}
    recreated = tuple(sorted(topic for topic in topic_ids if not _same_topic(state, source, topic)))
    return GenerationStarted(
        generation=state.generation + 1,
        start_offsets=known,
        topic_ids=topic_ids,
        cluster_id=source.cluster_id,
        origin=origin,
        reason=reason,
        started_by=started_by,
        recreated=recreated,
    )


def _same_topic(state: LedgerState, source: SourceExtent, topic: str) -> bool:
    return (state.topic_ids[topic], state.cluster_id) == (source.topic_ids[topic], source.cluster_id)


def _still_read(state: LedgerState, source: SourceExtent) -> dict[str, str]:
    return {topic: id_ for topic, id_ in state.topic_ids.items() if topic in source.topic_ids}


def _earliest(
    pipeline: str, state: LedgerState, source: SourceExtent, kafka_order_decides: bool
) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for tp, extent in source.partitions.items():
        if tp.topic not in state.topic_ids:
            continue
        same = _same_topic(state, source, tp.topic)
        if not same and kafka_order_decides and state.committed_through >= 0:
            raise TerminalError(
                what="changes of the re-created topic look older than those in the table",
                where=f"{pipeline}, topic {tp.topic}",
                expected="`change.order_by` in the pipeline file: without it offsets decide, and they start at 0 again",
                found="no order_by, and a table with rows of the old topic",
                action="declare order_by and give the pipeline a new target table, or start a new pipeline",
            )
        stands_at = state.committed_offsets.get(tp, 0)
        if same and extent.log_start_offset > stands_at:
            raise expired(pipeline, pipeline, OffsetRange(*tp, stands_at, extent.log_start_offset))
        offsets[tp] = extent.log_start_offset
    return offsets


def _no_skip(pipeline: str, r: OffsetRange, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this range cannot be skipped",
        where=f"{pipeline}, {r.topic_partition}",
        expected=expected,
        found=found,
        action=f"see `lakemark status {pipeline}` and `lakemark ledger show {pipeline}`; nothing was changed",
    )
