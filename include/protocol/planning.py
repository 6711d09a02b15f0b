"""Decides which ranges the next batch takes. Pure: the same ledger and the same Kafka lead to the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from include.protocol.batch import Batch, BatchKey, Pins
from include.protocol.deliveries import SKIP
from include.protocol.errors import LedgerBehindTarget, OffsetsExpired, RetryableError, TopicRecreated
from include.protocol.ledger_events import TopicsStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import known
from include.protocol.participants import NEVER, Position, Positions, Where, repair_due, standing, verify_not_behind
from include.protocol.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class PartitionExtent:
    """What Kafka holds of a partition: `[log_start_offset, end_offset)`. The end is the last stable offset."""

    log_start_offset: int
    end_offset: int


@dataclass(frozen=True)
class SourceExtent:
    """What Kafka holds of a pipeline's topics at one moment."""

    cluster_id: str
    topic_ids: Mapping[str, str]
    partitions: Mapping[TopicPartition, PartitionExtent]

    def up_to(self, offsets: Mapping[TopicPartition, int]) -> SourceExtent:
        """The same, as if no partition went further than these offsets; of other partitions nothing."""
        capped = {
            tp: replace(extent, end_offset=max(extent.log_start_offset, min(extent.end_offset, offsets.get(tp, 0))))
            for tp, extent in self.partitions.items()
        }
        return replace(self, partitions=capped)


@dataclass(frozen=True)
class NewBatch:
    """Record this plan. Then run this batch."""

    batch: Batch
    lag_records: int  # records left after this batch, at most
    stands_on: Positions = field(default_factory=dict)  # see `BatchPlanned`


@dataclass(frozen=True)
class PendingBatch:
    """This batch was planned before and is not committed: run it unchanged (I1)."""

    batch: Batch


@dataclass(frozen=True)
class Idle:
    """There is nothing to run: the source holds nothing new or, with `merge_every`, not enough."""


Start = Literal["earliest", "latest"]
# What a reset needs when another topic has taken the name. If offsets alone order changes, the old topic's rows would
# win. If offsets are the keys, the new topic's rows would replace them.
_READ_AGAIN = (
    "in a file without `change.order_by` declare one, and a new `target.table`; with `keys: generated` declare a new "
    "`target.table`; then"
)


def start_topics(state: LedgerState, source: SourceExtent, start: Start) -> TopicsStarted | None:
    """Where to begin in topics that were never read; None if there are none. It is recorded before anything is planned.

    Args:
        start: earliest: with the first record that Kafka still holds. latest: only with what comes from now on.
    """
    new = {topic: id_ for topic, id_ in source.topic_ids.items() if topic not in state.topic_ids}
    if not new:
        return None
    offsets = {
        tp: extent.log_start_offset if start == "earliest" else extent.end_offset
        for tp, extent in sorted(source.partitions.items())
        if tp.topic in new
    }
    return TopicsStarted(
        generation=state.generation,
        next_batch_id=state.next_batch_id,
        start_offsets=offsets,
        topic_ids=new,
        cluster_id=source.cluster_id,
    )


def added_partitions(state: LedgerState, source: SourceExtent) -> list[TopicPartition]:
    """Partitions that were added to topics that batches have read: keys may have moved there."""
    read = {tp.topic for tp in state.next_offsets}
    return sorted(tp for tp in source.partitions if tp.topic in read and tp not in state.next_offsets)


def plan_next(
    pipeline: str,
    state: LedgerState,
    source: SourceExtent,
    offsets_max: int,
    pins: Pins = MappingProxyType({}),
    heads: Positions = MappingProxyType({}),
) -> NewBatch | PendingBatch | Idle:
    """The next batch of a pipeline. All of its topics must have started.

    Args:
        offsets_max: the most that a batch may span; partitions share them by their lag.
        pins: versions of the tables that the batch's rows are computed with, so that all attempts compute the same.
        heads: where the tables before the point stand. If one is not where the last batch has left it, the next batch
            mends it, with records or without.

    Raises:
        OffsetsExpired, TopicRecreated: Kafka no longer holds what comes next (I7).
        TargetBehindLedger: a table lacks what the last batch has left in it.
        LedgerBehindTarget: a table holds a batch that the ledger never planned.
    """
    if state.is_fresh and (held := sorted(name for name, head in heads.items() if head.marker != NEVER)):
        raise RetryableError(
            what="other tables hold batches that the ledger does not know",
            where=f"{pipeline}, {', '.join(held)}",
            expected="no batch of any generation, since the ledger has none",
            found=", ".join(heads[name].in_words for name in held),
            action="plan again: the next plan begins a generation after all that the tables know",
        )
    positions = known(state, heads)
    for name, head in heads.items():
        if (named := positions.get(name)) is not None:
            verify_not_behind(head, named, Where(pipeline, name))
        if head.batch >= BatchKey(state.generation, state.next_batch_id):
            raise _never_planned(Where(pipeline, name), state, head)
    if state.pending is not None:
        verify_source(state.pending.batch, source)
        return PendingBatch(state.pending.batch)
    mends = repair_due(state.positions, heads)
    starts = next_offsets(pipeline, state, source)
    lags = {tp: source.partitions[tp].end_offset - offset for tp, offset in starts.items()}
    # A batch has either records that were read before, of which sinks get nothing, or others.
    again = {tp: max(0, min(state.told.get(tp, 0) - offset, lags[tp])) for tp, offset in starts.items()}
    is_again = any(again.values())
    takes = share_by_lag(again if is_again else lags, offsets_max)
    ranges = tuple(OffsetRange(*tp, starts[tp], starts[tp] + take) for tp, take in sorted(takes.items()) if take)
    if not ranges and not mends:
        return Idle()
    batch = Batch(
        pipeline=pipeline,
        generation=state.generation,
        batch_id=state.next_batch_id,
        ranges=ranges,
        topic_ids=dict(source.topic_ids),
        cluster_id=source.cluster_id,
        pins=dict(pins),
        mends=tuple(mends),
        deliver=SKIP if is_again else None,
    )
    return NewBatch(batch, sum(lags.values()) - batch.width, standing(state.positions, heads))


def _never_planned(where: Where, state: LedgerState, head: Position) -> LedgerBehindTarget:
    return LedgerBehindTarget(
        what="a table holds a batch that the ledger never planned, and the target does not",
        where=str(where),
        expected=f"at most generation {state.generation} batch {state.next_batch_id - 1}",
        found=head.in_words,
        action="the ledger and the target were restored from a copy, or lost: bring the right ones back; or "
        f"`lakemark reset {where.pipeline} --from earliest --reason ...` begins a generation after all that "
        "the tables know",
    )


def next_offsets(pipeline: str, state: LedgerState, source: SourceExtent) -> dict[TopicPartition, int]:
    """Where the next batch starts in every partition.

    A partition that was added after its topic's start begins at offset 0, whatever `start` says: its records came while
    this pipeline was already responsible for them.

    Raises:
        OffsetsExpired, TopicRecreated: Kafka no longer holds that.
    """
    verify_topics(pipeline, state.topic_ids, state.cluster_id, source)
    for tp in sorted(state.next_offsets.keys() - source.partitions.keys()):
        expected = f"offset {state.next_offsets[tp]} and later"
        raise _gone(pipeline, pipeline, tp, expected=expected, found="no such partition")
    starts = {tp: state.next_offsets.get(tp, 0) for tp in source.partitions}
    for tp, offset in starts.items():
        _verify_held(pipeline, pipeline, tp, first=offset, end=offset, extent=source.partitions[tp])
    return starts


def share_by_lag(lags: Mapping[TopicPartition, int], budget: int) -> dict[TopicPartition, int]:
    """Shares `budget` records over partitions in proportion to their lag. None gets more than its lag.

    Every partition that lags gets at least one record if the budget allows, so that none starves. The rest is shared in
    proportion, and remainders go to the largest fractions (Hamilton's method), ties to the lower partition. So the same
    input always gives the same shares.
    """
    if sum(lags.values()) <= budget:
        return dict(lags)
    lagging = [tp for tp, lag in lags.items() if lag]
    first = 1 if budget >= len(lagging) else 0
    wanted = {tp: lags[tp] - first for tp in lagging}
    left, total = budget - first * len(lagging), sum(wanted.values())
    shares = {tp: first + want * left // total for tp, want in wanted.items()}
    by_fraction = sorted(lagging, key=lambda tp: (-(wanted[tp] * left % total), tp))
    for tp in by_fraction[: budget - sum(shares.values())]:
        shares[tp] += 1
    return {tp: shares.get(tp, 0) for tp in lags}


def verify_source(batch: Batch, source: SourceExtent) -> None:
    """Checks that Kafka holds every range of the batch in full, in the same topics that were planned (I7).

    It is called again after the read: if Kafka still holds the start of a range then, it held the range all the time.
    """
    verify_topics(batch.pipeline, batch.topic_ids, batch.cluster_id, source)
    for r in batch.ranges:
        extent = source.partitions.get(r.topic_partition)
        if extent is None:
            raise _gone(batch.pipeline, str(batch), r.topic_partition, expected=str(r), found="no such partition")
        _verify_held(
            batch.pipeline, str(batch), r.topic_partition, first=r.start_offset, end=r.end_offset, extent=extent
        )


def verify_topics(pipeline: str, topic_ids: Mapping[str, str], cluster_id: str | None, source: SourceExtent) -> None:
    """Checks that these are the topics and the cluster that earlier batches were read from."""
    for topic, id_ in topic_ids.items():
        found = source.topic_ids.get(topic)
        if found is None:
            raise TopicRecreated(
                what="the pipeline no longer has a topic that earlier batches were read from",
                where=f"{pipeline}, topic {topic}",
                expected=f"{topic} in source.topics",
                found=", ".join(sorted(source.topic_ids)) or "no topics",
                action="put it back into the pipeline file; or, to leave it for good, "
                f"`lakemark reset {pipeline} --from committed --reason ...`",
            )
        if found != id_:
            raise TopicRecreated(
                what="the topic is not the one that earlier batches were read from",
                where=f"{pipeline}, topic {topic}",
                expected=f"topic id {id_}",
                found=f"topic id {found}",
                action="the old records are gone from Kafka, and the new topic's offsets start at 0 again. Nothing was "
                f"skipped. If the new topic is wanted: {_READ_AGAIN}, `lakemark reset {pipeline} --from earliest "
                "--reason ...`",
            )
    if cluster_id is not None and cluster_id != source.cluster_id:
        raise TopicRecreated(
            what="this is not the Kafka cluster that earlier batches were read from",
            where=pipeline,
            expected=f"cluster id {cluster_id}",
            found=f"cluster id {source.cluster_id}",
            action=f"point bootstrap_servers to the old cluster; or, if the new one is wanted: {_READ_AGAIN}, "
            f"`lakemark reset {pipeline} --from earliest --reason ...`",
        )


def _verify_held(pipeline: str, where: str, tp: TopicPartition, first: int, end: int, extent: PartitionExtent) -> None:
    if extent.log_start_offset > first:
        raise expired(pipeline, where, OffsetRange(*tp, first, extent.log_start_offset))
    if extent.end_offset < end:
        found = f"the log ends at {extent.end_offset}"
        raise _gone(pipeline, where, tp, expected=f"offsets below {end}", found=found)


def expired(pipeline: str, where: str, lost: OffsetRange) -> OffsetsExpired:
    """The error for records that retention deleted before the pipeline read them."""
    return OffsetsExpired(
        what="Kafka no longer holds records that were not applied yet",
        where=f"{where}, {lost.topic_partition}",
        expected=f"offset {lost.start_offset} and later",
        found=f"the log starts at {lost.end_offset}",
        action="nothing was skipped, and Lakemark never skips by itself: restore the records, or record their loss "
        f"with `lakemark ledger skip {pipeline} --range {lost.as_argument()} --reason ...`; then raise the topic's "
        "retention above the longest time that this pipeline may stand still",
    )


def _gone(pipeline: str, where: str, tp: TopicPartition, expected: str, found: str) -> OffsetsExpired:
    """The error for a log that lost its end: it was cut (unclean leader election), or the partition is gone."""
    return OffsetsExpired(
        what="Kafka has lost records at the end of a partition, and will give their offsets to other records",
        where=f"{where}, {tp}",
        expected=expected,
        found=found,
        action="nothing was skipped: restore the partition; or, to read it as it is now, `lakemark reset "
        f"{pipeline} --from earliest --reason ...` reads it all again (changes are order-proof)",
    )
