"""What a backfill reads, and how it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.protocol.backfill import Backfill
from include.protocol.backfill_planning import CHUNKS_MAX, everything, of_batches, split, verified_ranges
from include.protocol.batch import FENCE, Batch, BatchKey, app_id
from include.protocol.errors import FencedGeneration, LedgerConflict, OffsetsExpired, TerminalError
from include.protocol.generations import take_over
from include.protocol.guard import AlreadyApplied, Apply, guard
from include.protocol.ledger_events import (
    BackfillEnded,
    BackfillPlanned,
    BatchPlanned,
    GenerationStarted,
    TopicsStarted,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def source(*extents: tuple[int, int]) -> SourceExtent:
    partitions = {TopicPartition("t", p): PartitionExtent(*extent) for p, extent in enumerate(extents)}
    return SourceExtent("c", {"t": "id"}, partitions)


def backfill(*chunks: tuple[OffsetRange, ...], number: int = 1, into: str = "same") -> Backfill:
    return Backfill("p", number, "request", chunks, {"t": "id"}, "c", into, {T0: 9, T1: 5}, "why", "who")


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=6), st.integers(1, 2000))
def test_i1_chunks_tile_the_ranges_without_gap_or_overlap(widths: list[int], size: int) -> None:
    ranges = [OffsetRange("t", p, 100, 100 + width) for p, width in enumerate(widths)]
    if sum(widths) > size * CHUNKS_MAX:
        with pytest.raises(TerminalError, match="too many chunks"):
            split(ranges, size)
        return
    chunks = split(ranges, size)
    assert all(0 < sum(r.width for r in chunk) <= size for chunk in chunks)
    assert len(chunks) == -(-sum(widths) // size)
    for whole in ranges:
        parts = [r for chunk in chunks for r in chunk if r.partition == whole.partition]
        assert [r.start_offset for r in parts] == [whole.start_offset, *(r.end_offset for r in parts[:-1])]
        assert parts[-1].end_offset == whole.end_offset


def test_i7_only_what_kafka_holds_in_full_is_backfilled() -> None:
    assert verified_ranges("p", [OffsetRange("t", 1, 3, 9)], source((0, 5), (3, 9))) == (OffsetRange("t", 1, 3, 9),)
    for start, end in ((2, 9), (3, 10)):
        with pytest.raises(OffsetsExpired, match="3 to 9"):
            verified_ranges("p", [OffsetRange("t", 1, start, end)], source((0, 5), (3, 9)))
    for wrong in ([], [OffsetRange("t", 7, 0, 1)], [OffsetRange("t", 0, 0, 1), OffsetRange("t", 0, 2, 3)]):
        with pytest.raises(TerminalError, match="cannot be backfilled"):
            verified_ranges("p", wrong, source((0, 5)))


def test_batches_are_what_they_read() -> None:
    batches = [
        Batch("p", 1, 0, (OffsetRange("t", 0, 0, 4),), {"t": "id"}, "c"),
        Batch("p", 1, 1, (OffsetRange("t", 0, 4, 6), OffsetRange("t", 1, 0, 5)), {"t": "id"}, "c"),
        Batch("p", 1, 2, (OffsetRange("t", 0, 6, 9),), {"t": "id"}, "c"),
    ]
    assert of_batches("p", batches, 0, 1) == [OffsetRange("t", 0, 0, 6), OffsetRange("t", 1, 0, 5)]
    for first, last in ((0, 3), (2, 1)):
        with pytest.raises(TerminalError, match="0 to 2"):
            of_batches("p", batches, first, last)


def test_a_table_that_takes_the_targets_place_holds_everything_or_is_refused() -> None:
    started = TopicsStarted(1, 0, {T0: 2, T1: 0}, {"t": "id"}, "c")
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 2, 9),), {"t": "id"}, "c")
    events = [started, BatchPlanned(batch)]
    state = LedgerState(next_offsets={T0: 9, T1: 0}, topic_ids={"t": "id"}, cluster_id="c")
    assert everything("p", events, state, source((2, 20), (0, 0))) == [OffsetRange("t", 0, 2, 9)]
    with pytest.raises(OffsetsExpired, match="cannot be built again"):
        everything("p", events, state, source((3, 20), (0, 0)))
    given_up = GenerationStarted(
        2, {T0: 3}, {"t": "id"}, "c", "committed", "r", "w", skipped=(OffsetRange("t", 0, 2, 3),)
    )
    assert everything("p", [*events, given_up], state, source((3, 20), (0, 0))) == [OffsetRange("t", 0, 3, 9)]
    with pytest.raises(OffsetsExpired):  # a rebuilt ledger does not know where reading began, so from 0
        everything("p", [], state, source((2, 20), (0, 0)))
    # The topic was left and taken up again later: its earlier rows are in the table, too.
    taken_up = TopicsStarted(3, 0, {T0: 5, T1: 0}, {"t": "id"}, "c")
    assert everything("p", [*events, taken_up], state, source((2, 20), (0, 0))) == [OffsetRange("t", 0, 2, 9)]


def test_i7_a_table_with_rows_of_a_topic_that_is_gone_is_not_made_anew_without_them() -> None:
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 0, 9),), {"t": "id"}, "c")
    anew = GenerationStarted(2, {T0: 0}, {"t": "id-2"}, "c", "earliest", "r", "w", recreated=("t",))
    state = LedgerState(generation=2, next_offsets={T0: 4}, topic_ids={"t": "id-2"}, cluster_id="c")
    with pytest.raises(TerminalError, match="rows of a topic that is gone"):
        everything("p", [BatchPlanned(batch), anew], state, source((0, 4)))
    swapped = GenerationStarted(3, {T0: 4}, {"t": "id-2"}, "c", "backfill 1", "r", "w")
    assert everything("p", [BatchPlanned(batch), anew, swapped], state, source((0, 4))) == [OffsetRange("t", 0, 0, 4)]


def test_i3_i5_a_chunk_has_a_marker_of_its_own_and_follows_nothing() -> None:
    chunk = backfill((OffsetRange("t", 0, 0, 4),), (OffsetRange("t", 0, 4, 9),), number=3).batch(1)
    assert chunk.key == BatchKey(-3, 1)
    assert chunk.app_id == "lakemark/p/b3/1"
    assert chunk.app_id != app_id("p", -3)
    assert guard(chunk, None, None, current_generation=7) == Apply()  # no batch before it, and no generation
    assert guard(chunk, 1, chunk.fingerprint, 7) == AlreadyApplied("verified")
    with pytest.raises(FencedGeneration):
        guard(chunk, FENCE, None, 7)
    with pytest.raises(TerminalError, match="no such chunk"):
        backfill((OffsetRange("t", 0, 0, 4),)).batch(1)


def test_a_backfill_is_in_the_ledger_and_moves_nothing() -> None:
    planned = backfill((OffsetRange("t", 0, 0, 4), OffsetRange("t", 1, 0, 2)), into="new")
    events = [BackfillPlanned(planned), BackfillEnded(1, "cancelled", "me")]
    assert [from_row(to_row(event)) for event in events] == events
    for impossible in ([events[0], events[0]], [*events, events[1]], [events[1]]):
        with pytest.raises(LedgerConflict):
            fold(impossible)
    state = fold(events[:1])
    assert state.planned("p", BatchKey(-1, 0)).batch == planned.batch(0)
    assert (state.next_offsets, state.batches, state.generation) == ({}, (), 1)
    with pytest.raises(FencedGeneration, match="was cancelled"):
        fold(events).planned("p", BatchKey(-1, 0))
    with pytest.raises(TerminalError, match="no such backfill"):
        state.planned("p", BatchKey(-2, 0))


def test_the_live_pipeline_goes_on_where_the_backfill_was_planned() -> None:
    state = LedgerState(generation=4)
    started = take_over(backfill(number=2, into="new"), state, source((0, 20), (5, 9)), "me")
    assert (started.generation, started.start_offsets, started.origin) == (5, {T0: 9, T1: 5}, "backfill 2")
    with pytest.raises(OffsetsExpired):  # what came since is gone
        take_over(backfill(number=2, into="new"), state, source((0, 20), (6, 9)), "me")


def test_i7_a_promotion_does_not_pass_over_what_a_reset_reads_again_for_another_table() -> None:
    begun = GenerationStarted(2, {T0: 3, T1: 9}, {"t": "id"}, "c", "batch 1", "a history was lost", "me")
    started = take_over(backfill(number=2, into="new"), fold([begun]), source((0, 20), (5, 9)), "me")
    assert started.start_offsets == {T0: 3, T1: 5}
