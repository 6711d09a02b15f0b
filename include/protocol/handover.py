"""Where each half of a pipeline continues after `merge_every` was added to its file, or removed from it.

Without that line the pipeline reads Kafka itself, and its own batches write the archive. The landing does not run. What
it has missed is in the archive already, unless the file had no `archive` either. So the records in the archive are
counted, and the landing passes over only those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from include.protocol.batch import Batch
from include.protocol.errors import OffsetsExpired
from include.protocol.ledger_events import Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.read_before import committed, ranges_in

ORIGIN = "archive"  # a landing's generation that starts after what the other half has archived


@dataclass(frozen=True)
class Overtaken:
    """The merging half has merged more from Kafka than its landing has ever landed."""

    started: GenerationStarted  # the landing's next generation, if the archive holds the records between
    ranges: tuple[OffsetRange, ...]  # merged since then
    topic_ids: Mapping[str, str]
    records: int  # how many Kafka held in these ranges

    @classmethod
    def of(cls, landing: Sequence[Event], merging: Sequence[Event]) -> Overtaken | None:
        """Compares the two ledgers. None if the landing was not overtaken, or if the number of records is not known.

        Args:
            landing, merging: all events of the two ledgers.
        """
        state, merged = fold(landing), fold(merging)
        stands, reached = state.committed_in(state.topic_ids), farthest(landing, state.topic_ids)
        # A landing that stands below an earlier position was told to read again, and does so up to that position.
        ahead = {
            tp: at
            for tp, at in merged.committed_in(state.topic_ids).items()
            if at > stands.get(tp, 0) >= reached.get(tp, 0)
        }
        read = _read_between({tp: reached.get(tp, 0) for tp in ahead}, ahead, merging, state.topic_ids)
        if not ahead or read is None:
            return None
        started = GenerationStarted(
            generation=state.generation + 1,
            start_offsets={**stands, **ahead},
            topic_ids=state.topic_ids,
            cluster_id=state.cluster_id,
            origin=ORIGIN,
            reason="the pipeline has merged and archived batches itself, without `merge_every`",
            started_by="plan",
        )
        ranges = tuple(r for batch, _ in read for r in batch.ranges)
        return cls(started, ranges, dict(state.topic_ids), sum(records for _, records in read))

    def applied_to(self, state: LedgerState) -> LedgerState:
        """The landing's state once the generation has begun."""
        new = self.started
        return LedgerState(
            generation=new.generation,
            next_offsets=new.start_offsets,
            topic_ids=new.topic_ids,
            cluster_id=new.cluster_id,
            generations=(*state.generations, new),
        )


def may_be_overtaken(landing: LedgerState, merging: LedgerState) -> bool:
    """Whether `Overtaken.of` is worth its cost; recent states suffice. True for a landing that has not begun."""
    stands = landing.committed_offsets
    return any(
        at > stands.get(tp, 0)
        for tp, at in merging.next_offsets.items()
        if landing.topic_ids.get(tp.topic) in (None, merging.topic_ids.get(tp.topic))
    )


def resumed(started: TopicsStarted, merged: LedgerState, hole: Mapping[TopicPartition, int]) -> TopicsStarted:
    """A landing's topics start where the pipeline's merges ended, if it has read Kafka without `merge_every`; or where
    the archive's hole begins, as far as Kafka still holds it: it was merged.

    Args:
        started: from the first records that Kafka holds. hole: see `hole_in`.
    """
    merged_to = merged.committed_in(started.topic_ids)
    offsets = {
        tp: min(merged_to[tp], max(at, hole[tp])) if tp in hole and tp in merged_to else merged_to.get(tp, at)
        for tp, at in started.start_offsets.items()
    }
    return replace(started, start_offsets=offsets)


def hole_in(archive: str, merging: Iterable[Event], topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Where the first records of these topics lie that were merged while the pipeline file left the archive out.

    Args:
        archive: its name in positions. merging: all events of the half that merges.
    """
    stood = ((batch, (commit.positions or {}).get(archive)) for batch, commit in committed(merging))
    without = (batch for batch, at in stood if at is not None and at.left_out)
    return _lowest((r.topic_partition, r.start_offset) for batch in without for r in ranges_in(batch, topic_ids))


def only_in_archive(
    error: OffsetsExpired, landed: LedgerState, merged: LedgerState, kafka: SourceExtent
) -> OffsetsExpired:
    """The error to raise when Kafka no longer holds what comes next: `error`, or the same with other advice if a
    landing had landed those records before `merge_every` was removed. Nothing is lost then."""
    offsets, held = merged.committed_offsets, landed.committed_in(merged.topic_ids)
    gone = {
        tp: extent.log_start_offset
        for tp, extent in kafka.partitions.items()
        if extent.log_start_offset > offsets.get(tp, 0)
    }
    if not gone or any(held.get(tp, 0) < start for tp, start in gone.items()):
        return error
    return OffsetsExpired(
        what="Kafka no longer holds records that were not merged yet, but the archive does",
        where=error.where,
        expected=error.expected,
        found=error.found,
        action="nothing is lost: put `merge_every` back into the pipeline file and run the pipeline until it has "
        "merged all that has landed; after that you may remove `merge_every`",
    )


def in_archive_too(error: OffsetsExpired, pipeline: str) -> OffsetsExpired:
    """The same error, if the archive holds records that Kafka has dropped: batches of a ledger that was lost have read
    them, and the target was lost, too."""
    return OffsetsExpired(
        what=f"{error.what}; the archive holds some of them",
        where=error.where,
        expected=error.expected,
        found=error.found,
        action=f"{error.action}. After that, `lakemark run {pipeline} --from-archive` writes what the archive holds",
    )


def starts_in(landing: Sequence[Event], topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Where a landing has begun to read these topics: the lowest offset of any generation. A ledger that was rebuilt
    knows batches from before its first generation."""
    return _lowest((tp, first) for tp, first, _ in _spans(landing, topic_ids))


def farthest(landing: Sequence[Event], topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The farthest offsets that a landing has reached in these topics, in any generation."""
    found: dict[TopicPartition, int] = {}
    for tp, _, last in _spans(landing, topic_ids):
        found[tp] = max(found.get(tp, last), last)
    return found


def _spans(events: Sequence[Event], topic_ids: Mapping[str, str]) -> Iterator[tuple[TopicPartition, int, int]]:
    """Where the ranges of landed batches in these topics begin and end; and where generations and topics began."""
    for batch, _ in committed(events):
        yield from ((r.topic_partition, r.start_offset, r.end_offset) for r in ranges_in(batch, topic_ids))
    for event in events:
        if isinstance(event, TopicsStarted | GenerationStarted):
            for tp, at in event.start_offsets.items():
                if tp.topic in topic_ids and event.topic_ids.get(tp.topic) == topic_ids[tp.topic]:
                    yield tp, at, at


def _lowest(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for tp, at in offsets:
        found[tp] = min(found.get(tp, at), at)
    return found


def _read_between(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    merging: Iterable[Event],
    topic_ids: Mapping[str, str],
) -> list[tuple[Batch, int]] | None:
    """The newest batches that together hold everything from `starts` to `ends`, each with the number of records that it
    read. None if they are not known."""
    landed = [(batch, commit.counts.read if commit.counts else None) for batch, commit in committed(merging)]
    found: list[tuple[Batch, int]] = []
    left = dict(ends)  # the search goes down from here
    for batch, read in reversed(landed):
        wanted = [r for r in batch.ranges if left.get(r.topic_partition, 0) > starts.get(r.topic_partition, 0)]
        if not wanted or all(r.start_offset >= left[r.topic_partition] for r in wanted):
            continue  # a later generation has read these again
        same = all(batch.topic_ids.get(r.topic) == topic_ids.get(r.topic) for r in wanted)
        if read is None or not same or any(r.end_offset != left[r.topic_partition] for r in wanted):
            return None
        found.append((batch, read))
        left |= {r.topic_partition: r.start_offset for r in wanted}
    return found if all(left[tp] <= start for tp, start in starts.items()) else None
