"""Decides which ranges a backfill reads, and cuts them into chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from include.protocol.batch import Batch
from include.protocol.errors import OffsetsExpired, TerminalError
from include.protocol.ledger_events import Event
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent, share_by_lag
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.reading_began import reading_began

CHUNKS_MAX = 1000  # Airflow maps a task at most 1024 times (core.max_map_length)


def split(ranges: Iterable[OffsetRange], records_per_chunk_max: int) -> tuple[tuple[OffsetRange, ...], ...]:
    """Cuts ranges into chunks. Each chunk is shared over partitions in proportion to what is left of them.

    Args:
        ranges: one per partition.

    Raises:
        TerminalError: there would be more than `CHUNKS_MAX` chunks.
    """
    ends = {r.topic_partition: r.end_offset for r in sorted(ranges)}
    position = {r.topic_partition: r.start_offset for r in ranges}
    total = sum(ends[tp] - position[tp] for tp in ends)
    if total > records_per_chunk_max * CHUNKS_MAX:
        raise TerminalError(
            what="the backfill has too many chunks",
            where=f"{total:,} offsets in chunks of {records_per_chunk_max:,}",
            expected=f"at most {CHUNKS_MAX:,} chunks",
            found=f"{-(-total // records_per_chunk_max):,}",
            action=f"ask for at least {-(-total // CHUNKS_MAX):,} records per chunk, or for less",
        )
    chunks: list[tuple[OffsetRange, ...]] = []
    while left := {tp: ends[tp] - position[tp] for tp in ends if ends[tp] > position[tp]}:
        takes = share_by_lag(left, records_per_chunk_max)
        chunks.append(tuple(OffsetRange(*tp, position[tp], position[tp] + n) for tp, n in takes.items() if n))
        position |= {r.topic_partition: r.end_offset for r in chunks[-1]}
    return tuple(chunks)


def verified_ranges(pipeline: str, ranges: Sequence[OffsetRange], source: SourceExtent) -> tuple[OffsetRange, ...]:
    """Checks that the source (Kafka or the archive) holds all ranges in full, and returns them sorted.

    Raises:
        OffsetsExpired: it does not. TerminalError: a partition does not exist or has two ranges, or there are none.
    """
    seen: set[TopicPartition] = set()
    for r in sorted(ranges):
        extent = source.partitions.get(r.topic_partition)
        if extent is None or r.topic_partition in seen:
            known = ", ".join(map(str, sorted(source.partitions)))
            raise _refused(pipeline, str(r), f"one range for a partition of the pipeline ({known})", "another one")
        seen.add(r.topic_partition)
        if r.start_offset < extent.log_start_offset or r.end_offset > extent.end_offset:
            raise OffsetsExpired(
                what="Kafka does not hold the records to backfill",
                where=f"{pipeline}, {r.topic_partition}",
                expected=f"offsets {r.start_offset} to {r.end_offset} (exclusive)",
                found=f"{extent.log_start_offset} to {extent.end_offset}",
                action="ask for a range within that; only an archive still has what retention has deleted",
            )
    if not seen:
        raise _refused(pipeline, pipeline, "at least one record to backfill", "none in that range")
    return tuple(sorted(ranges))


def between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], source: SourceExtent
) -> list[OffsetRange]:
    """The ranges from `starts` to `ends`, as far as Kafka holds them. Empty ranges are left out."""
    found = []
    for tp, extent in source.partitions.items():
        start = max(starts.get(tp, extent.log_start_offset), extent.log_start_offset)
        end = min(ends.get(tp, extent.end_offset), extent.end_offset)
        if start < end:
            found.append(OffsetRange(*tp, start, end))
    return found


def everything(
    pipeline: str, events: Iterable[Event], state: LedgerState, source: SourceExtent, is_archive: bool = False
) -> list[OffsetRange]:
    """The ranges that the live pipeline has applied since its topics were first read. A table that takes the target's
    place must hold all of them.

    Args:
        is_archive: the source holds nothing but what the pipeline has read. If its ledger was lost at some time, that
            may be more than the ledger knows.

    Raises:
        OffsetsExpired: Kafka no longer holds all of it, and nobody has given up the rest. TerminalError: a topic was
            re-created, and the table still has rows of the old one.
    """
    first = reading_began(events, state)
    if first.recreated:
        raise TerminalError(
            what="the table holds rows of a topic that is gone, so it cannot be built again",
            where=f"{pipeline}, {', '.join(first.recreated)}",
            expected="the same topics that the table was built from",
            found="topics that were re-created since then, under the same names",
            action="backfill what Kafka holds into the table itself (`--range`, `--since`); for a table with the new "
            "topic alone, name another `target.table`",
        )
    found = []
    for tp, end in sorted(state.committed_offsets.items()):
        start, extent = first.offsets.get(tp, 0), source.partitions.get(tp)
        if extent is not None:
            if first.lost_before(tp, extent.log_start_offset):
                holder, other = ("the archive", "Kafka may hold") if is_archive else ("Kafka", "only an archive has")
                raise OffsetsExpired(
                    what=f"{holder} does not hold all records that the table was built from, so it cannot be built "
                    "again",
                    where=f"{pipeline}, {tp}",
                    expected=f"offset {start} and later",
                    found=f"all from {extent.log_start_offset} on",
                    action=f"backfill what {holder} holds into the table itself (`--range`, `--since`); {other} the "
                    "rest",
                )
            start = extent.log_start_offset if is_archive else max(start, extent.log_start_offset)
        if start < end:
            found.append(OffsetRange(*tp, start, end))
    return found


def of_batches(pipeline: str, batches: Sequence[Batch], first: int, last: int) -> list[OffsetRange]:
    """The ranges that batches `first` to `last` (inclusive) of the current generation read, one per partition."""
    if not 0 <= first <= last < len(batches):
        expected = f"batches of this generation, 0 to {len(batches) - 1}" if batches else "a batch; there is none yet"
        raise _refused(pipeline, f"batches {first}-{last}", expected, f"{first}-{last}")
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for r in chain.from_iterable(batch.ranges for batch in batches[first : last + 1]):
        starts.setdefault(r.topic_partition, r.start_offset)
        ends[r.topic_partition] = r.end_offset
    return [OffsetRange(*tp, start, ends[tp]) for tp, start in starts.items()]


def _refused(pipeline: str, where: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this cannot be backfilled",
        where=f"{pipeline}, {where}" if where != pipeline else pipeline,
        expected=expected,
        found=found,
        action=f"see `lakemark status {pipeline} --batches 10`; nothing was changed",
    )
