"""Every committed batch is a checkpoint: offsets of every partition, and where every table stood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.checkpoints import Checkpoint, checkpoints_of, named, retained, standing_at
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.participants import Position
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, committed

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ASIDE = {"quarantine": Position(1, 0, 2, version=3, identity="q")}
FIRST = batch(0, ("t", 0, 0, 10))
SECOND = batch(1, ("t", 0, 10, 20), ("t", 1, 0, 5))
AGAIN = batch(0, ("u", 0, 7, 9), generation=2)
EVENTS: list[Event] = [
    TopicsStarted(1, 0, {T0: 0, T1: 0}, {"t": "id-t"}, "cluster"),
    BatchPlanned(FIRST),
    replace(committed(FIRST), committed_at="2026-01-01T00:00:00+00:00", table_id="x", positions=ASIDE),
    BatchPlanned(SECOND),
    replace(committed(SECOND), committed_at="2026-01-02T00:00:00+00:00"),
    GenerationStarted(2, {T0: 10, U0: 7}, {"t": "id-t", "u": "id-u"}, "other", "batch 1", "why", "who"),
    BatchPlanned(AGAIN),
    replace(committed(AGAIN), committed_at="2026-01-03T00:00:00+00:00"),
]
CHECKPOINTS = checkpoints_of("p", EVENTS)


def test_it_knows_the_offsets_of_every_partition() -> None:
    assert [c.next_offsets for c in CHECKPOINTS] == [{T0: 10, T1: 0}, {T0: 20, T1: 5}, {T0: 10, U0: 9}]
    assert [(c.topic_ids, c.cluster_id) for c in CHECKPOINTS[1:]] == [
        ({"t": "id-t"}, "cluster"),
        ({"t": "id-t", "u": "id-u"}, "cluster"),
    ]


def test_they_are_what_the_fold_says_at_that_moment() -> None:
    ends = [n for n, event in enumerate(EVENTS, 1) if type(event).__name__ == "BatchCommitted"]
    for end, checkpoint in zip(ends, CHECKPOINTS, strict=True):
        state = fold(EVENTS[:end])
        assert (checkpoint.next_offsets, checkpoint.topic_ids) == (state.committed_offsets, state.topic_ids)
        assert (checkpoint.key, checkpoint.form) == ((state.generation, state.committed_through), state.form)


def test_it_knows_where_every_table_stood() -> None:
    assert CHECKPOINTS[0].all_positions("target") == {
        **ASIDE,
        "target": Position(1, 0, 0, version=1, identity="x"),
    }
    assert CHECKPOINTS[1].positions is None, "an older Lakemark did not say"


def test_a_recent_state_is_where_they_begin() -> None:
    kept = fold(EVENTS).snapshot()
    later = batch(1, ("t", 0, 10, 15), generation=2)
    found = checkpoints_of("p", [kept, BatchPlanned(later), committed(later)])
    assert found[0] == CHECKPOINTS[-1]
    assert found[1].next_offsets == {T0: 15, U0: 9}


def test_a_commit_that_is_recorded_after_a_reset_is_none() -> None:
    late = checkpoints_of("p", [*EVENTS[:4], *EVENTS[5:], EVENTS[4]])
    assert [c.key for c in late] == [(1, 0), (2, 0)]


def test_it_is_the_same_from_json() -> None:
    assert [Checkpoint.from_json(c.to_json()) for c in CHECKPOINTS] == CHECKPOINTS


@pytest.mark.parametrize(("name", "key"), [("0", (2, 0)), ("1/0", (1, 0)), ("1/1", (1, 1)), ("2/0", (2, 0))])
def test_a_person_names_it_by_batch_or_by_generation_and_batch(name: str, key: tuple[int, int]) -> None:
    assert named("p", CHECKPOINTS, name).key == key


@pytest.mark.parametrize("name", ["1", "2/1", "x", "", "1/0/0", "-1", "1/" + "9" * 30])
def test_another_name_is_refused_with_those_that_are_there(name: str) -> None:
    with pytest.raises(TerminalError, match="1/0 to 1/1, 2/0 to 2/0"):
        named("p", CHECKPOINTS, name)


def test_without_any_that_is_said() -> None:
    with pytest.raises(TerminalError, match="none was yet"):
        named("p", [], "0")


TOLD = [(f"2026-01-0{n}T12:00:00+00:00", event) for n, event in zip((1, 1, 1, 2, 2, 2, 3, 3), EVENTS, strict=True)]


def at(moment: str | None, *more: tuple[str, Event]) -> str | None:
    found = standing_at("p", [*TOLD, *more], moment)
    return found and found.name


def test_a_moment_has_the_one_that_was_committed_by_then() -> None:
    assert at("2025-12-31T23:59:59+00:00") is None
    assert at("2026-01-02T00:00:00+00:00") == "1/1"
    assert at("2027-01-01T00:00:00+00:00") == at(None) == "2/0"


def test_since_a_restore_it_is_the_one_that_the_tables_went_back_to() -> None:
    back = GenerationStarted(3, {}, {}, None, "checkpoint 1/0", "why", "who", restored_to=1)
    restored = ("2026-01-04T00:00:00+00:00", back)
    assert at("2026-01-03T23:00:00+00:00", restored) == "2/0"
    assert at("2026-01-04T00:00:00+00:00", restored) == at(None, restored) == "1/0"
    reset = ("2026-01-05T00:00:00+00:00", replace(back, generation=4, origin="committed", restored_to=None))
    assert at(None, restored, reset) == "1/0"


def test_where_the_tables_stood_at_a_moment_is_kept_also_after_a_restore() -> None:
    first, _, third = CHECKPOINTS
    assert third.committed_at is not None
    assert retained(CHECKPOINTS, count=None, since="2026-02-01T00:00:00+00:00", stood=first) == [first]
    assert retained(CHECKPOINTS, count=None, since="2026-01-02T12:00:00+00:00", stood=first) == [first, third]


def test_so_many_are_kept_or_those_since_a_moment_and_the_state_at_that_moment() -> None:
    assert retained(CHECKPOINTS, count=2, since=None) == CHECKPOINTS[1:]
    assert retained(CHECKPOINTS, count=9, since=None) == CHECKPOINTS
    assert retained(CHECKPOINTS, count=None, since="2026-01-02T12:00:00+00:00") == CHECKPOINTS[1:]
    assert retained(CHECKPOINTS, count=None, since="2025-01-01T00:00:00+00:00") == CHECKPOINTS
    assert retained(CHECKPOINTS, count=None, since="2026-02-01T00:00:00+00:00") == CHECKPOINTS[2:]
    assert retained(CHECKPOINTS, count=None, since=None) == ()
