"""Reset, skip and rebuild as decisions: what the next generation reads, and what is refused."""

from __future__ import annotations

import pytest

from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import OffsetsExpired, TerminalError, TopicRecreated
from include.protocol.generations import fence_metadata, fenced_for, no_later_than, rebuild, restart, skip
from include.protocol.ledger_events import BatchPlanned, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.support.batches import batch, committed, landed, source

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SOURCE = source({("t", 0): (0, 100), ("t", 1): (0, 50)})


def pending_state() -> LedgerState:
    """Batch 0 is committed, batch 1 planned; partition 1 is empty so far."""
    return fold(
        [
            TopicsStarted(1, 0, {T0: 0, T1: 0}, {"t": "id-t"}, "cluster"),
            BatchPlanned(batch(0)),
            committed(batch(0)),
            BatchPlanned(batch(1)),
        ]
    )


def again(origin, state=None, extents=SOURCE, kafka_order=False):
    return restart("p", state or pending_state(), extents, origin, kafka_order, "why", "me")


def test_a_reset_goes_on_after_the_committed_batches() -> None:
    started = again("committed")
    assert (started.generation, started.origin, started.start_offsets) == (2, "committed", {T0: 10, T1: 0})


def test_a_reset_may_go_back_to_a_batch_or_to_the_earliest() -> None:
    assert again(0).start_offsets == {T0: 0, T1: 0}
    assert again(1).start_offsets == {T0: 10, T1: 0}
    assert again("earliest", extents=source({("t", 0): (4, 100), ("t", 1): (0, 50)})).start_offsets == {T0: 4, T1: 0}
    with pytest.raises(TerminalError, match="a batch from 0 to 1: a committed one, or the one after them"):
        again(2)


def test_i7_a_reset_passes_nothing_over() -> None:
    with pytest.raises(OffsetsExpired, match="ledger skip p --range t-0:10-12"):
        again("earliest", extents=source({("t", 0): (12, 100), ("t", 1): (0, 50)}))
    new = source({("t", 0): (0, 100), ("t", 1): (0, 50)}, t="another")
    with pytest.raises(TopicRecreated, match="--from earliest"):
        again("committed", extents=new)
    started = again("earliest", extents=new)
    assert (started.start_offsets, started.topic_ids) == ({T0: 0, T1: 0}, {"t": "another"})
    assert started.recreated == ("t",)
    with pytest.raises(TerminalError, match="order_by"):
        again("earliest", extents=new, kafka_order=True)


def test_a_topic_that_is_not_read_any_more_is_left_behind() -> None:
    started = again("committed", extents=source({("u", 0): (0, 9)}))
    assert (started.start_offsets, started.topic_ids) == ({}, {})  # `u` starts as every new topic does


def test_a_skip_moves_one_partition_forward_and_says_what_it_gave_up() -> None:
    lost = OffsetRange("t", 0, 10, 30)
    started = skip("p", pending_state(), SOURCE, [lost], "why", "me")
    assert (started.start_offsets, started.skipped) == ({T0: 30, T1: 0}, (lost,))


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        (OffsetRange("t", 0, 12, 30), "where the pipeline stands, at 10"),
        (OffsetRange("t", 0, 0, 30), "where the pipeline stands, at 10"),
        (OffsetRange("t", 0, 10, 101), "at most 100"),
        (OffsetRange("t", 7, 0, 1), "a partition that this pipeline reads"),
        (OffsetRange("other", 0, 0, 1), "a partition that this pipeline reads"),
    ],
)
def test_a_skip_elsewhere_is_refused(lost: OffsetRange, says: str) -> None:
    with pytest.raises(TerminalError, match=says):
        skip("p", pending_state(), SOURCE, [lost], "why", "me")


def test_i10_a_rebuild_takes_the_last_commit_then_the_fence_then_the_rows() -> None:
    commit = landed(batch(6))
    started = rebuild(1, commit, None, {}, SOURCE, "lost", "me")
    assert (started.generation, started.origin, started.start_offsets) == (2, "commit metadata", {T0: 70})
    begun = again("committed")
    started = rebuild(2, None, begun, {}, SOURCE, "lost", "me")
    assert (started.generation, started.origin, started.start_offsets) == (3, "commit metadata", {T0: 10, T1: 0})
    started = rebuild(1, None, None, {T0: 33}, SOURCE, "lost", "me")
    assert (started.origin, started.start_offsets) == ("rows", {T0: 33, T1: 0})


def test_a_fence_carries_how_the_next_generation_begins() -> None:
    started = skip("p", pending_state(), SOURCE, [OffsetRange("t", 0, 10, 30)], "why", "me")
    text = fence_metadata("p", started)
    assert fenced_for(text, "p") == started
    assert fenced_for(text, "q") is None
    assert CommitMetadata.loads(text) is None


@pytest.mark.parametrize("text", ["a-1", "a-1:2", "1:2-3", "a-1:3-3", "a-1:5-3", ""])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        OffsetRange.parse(text)


def test_ranges_read_as_they_are_written() -> None:
    assert OffsetRange.parse("a-b.c_1-0-12:3-45") == OffsetRange("a-b.c_1-0", 12, 3, 45)
    assert OffsetRange.parse(OffsetRange("x", 0, 1, 2).as_argument()) == OffsetRange("x", 0, 1, 2)


def test_i7_a_rebuilt_generation_begins_no_later_than_the_one_that_was_about_to_fill_a_table() -> None:
    """The target went back to a batch that stands further than where that generation had begun to read."""
    begun = GenerationStarted(2, {T0: 10, T1: 3}, {"t": "id-t"}, "cluster", "commit metadata", "lost", "test")
    assert no_later_than(begun, {T0: 4, T1: 9}).start_offsets == {T0: 4, T1: 3}
    assert no_later_than(begun, {}) == begun
