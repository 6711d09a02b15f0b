"""When `on_data` starts a run."""

from __future__ import annotations

import itertools
from dataclasses import replace

from include.protocol.data_watch import GROUP_PATIENCE_SECONDS, PATIENCE_SECONDS, DataWatch, StartRun, Waiting

FIRST, LONGEST = PATIENCE_SECONDS


def waiting(
    records: int,
    progress: int = 0,
    life: int = 0,
    urgent: bool = False,
    unmerged: int = 0,
    problem: str | None = None,
) -> Waiting:
    return Waiting(records, progress, life, urgent, unmerged=unmerged, problem=problem)


def test_enough_records_start_a_run_at_once() -> None:
    watch = DataWatch(records=100, seconds=60)
    assert watch.look(0, waiting(99)) is None
    assert watch.look(1, waiting(100)) == StartRun(100, 1)


def test_a_few_records_start_a_run_when_they_have_waited() -> None:
    watch = DataWatch(records=100, seconds=60)
    assert watch.look(0, waiting(0)) is None
    assert watch.look(500, waiting(1)) is None
    assert watch.look(559, waiting(2)) is None
    assert watch.look(560, waiting(2)) == StartRun(2, 60)


def test_one_start_is_enough_until_something_comes_of_it() -> None:
    watch = DataWatch(records=1, seconds=0)
    assert watch.look(0, waiting(5))
    assert watch.look(1, waiting(9)) is None
    assert watch.look(2, waiting(9, life=1)) is None  # a batch is planned, an attempt has begun ...
    assert watch.look(3, waiting(4, progress=1, life=2)) == StartRun(4, 0)  # more came in meanwhile
    assert watch.look(4, waiting(0, progress=2, life=3)) is None
    assert watch.look(5, waiting(1, progress=2, life=3)) == StartRun(1, 0)


def test_what_came_while_a_run_was_on_waits_from_then() -> None:
    watch = DataWatch(records=100, seconds=10)
    assert watch.look(0, waiting(100))
    assert watch.look(20, waiting(7, progress=1, life=1)) is None
    assert watch.look(29, waiting(7, progress=1, life=1)) is None
    assert watch.look(30, waiting(7, progress=1, life=1)) == StartRun(7, 10)


def test_a_start_that_nothing_came_of_is_said_again_ever_more_rarely() -> None:
    watch = DataWatch(records=1, seconds=0)
    starts = [now for now in range(0, 10_000, 10) if watch.look(now, waiting(1))]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert gaps[:4] == [FIRST, 2 * FIRST, 4 * FIRST, LONGEST]
    assert set(gaps[3:]) == {LONGEST}


def test_signs_of_life_put_the_second_call_off() -> None:
    """A long batch is not called twice: its attempts write to the ledger."""
    watch = DataWatch(records=1, seconds=0)
    assert watch.look(0, waiting(1))
    assert not any(watch.look(now, waiting(1, life=now // 100)) for now in range(1, 2000))


def test_urgent_is_said_at_once_whatever_waits() -> None:
    watch = DataWatch(records=100, seconds=60)
    assert watch.look(0, waiting(0, urgent=True)) == StartRun(0, 0)
    assert watch.look(1, waiting(0, urgent=True)) is None
    assert watch.look(FIRST, waiting(0, urgent=True)) == StartRun(0, FIRST)


def test_what_waits_for_a_person_is_said_again_as_rarely_in_a_group() -> None:
    watch = DataWatch(records=1, seconds=0, patience=GROUP_PATIENCE_SECONDS)
    ill = waiting(1, problem="no such topic")
    starts = [now for now in range(0, 5_000, 10) if watch.look(now, ill)]
    assert [b - a for a, b in itertools.pairwise(starts)][:4] == [FIRST, 2 * FIRST, 4 * FIRST, LONGEST]
    assert watch.look(6_000, ill) == StartRun(1, 6_000, "no such topic")
    assert watch.look(6_000 + GROUP_PATIENCE_SECONDS[1], waiting(1))  # a person has acted, and it is only paused


def test_what_has_landed_is_merged_once_nothing_has_come_for_a_while() -> None:
    watch = DataWatch(records=100, seconds=5)
    assert watch.look(0, waiting(1)) is None
    assert watch.look(5, waiting(1))
    for now in range(6, 600, 6):  # something lands every few seconds
        landed = waiting(0, progress=now, unmerged=now)
        assert watch.look(now, landed) is None
        assert watch.look(now + 5, replace(landed, records=3)) == StartRun(3, 5)
    assert watch.look(600, waiting(0, progress=600, unmerged=600)) is None
    assert watch.look(600 + FIRST - 1, waiting(0, progress=600, unmerged=600)) is None
    assert watch.look(600 + FIRST, waiting(0, progress=600, unmerged=600)) == StartRun(0, FIRST)
