"""Turns of a group's pipelines: nobody waits for another one's trouble, and trouble that all share is the run's own."""

from __future__ import annotations

import pytest

from include.protocol import draining
from include.protocol.draining import Due, Turns, due_members


def due(**records: int) -> list[Due]:
    return [Due(number, name) for name, number in records.items()]


def test_small_ones_come_first_and_two_work_at_once() -> None:
    turns = Turns(due(large=9_000, small=1, middle=50))
    assert [turns.begin(0.0) for _ in range(3)] == ["small", "middle", None]
    turns.end("small", is_good=True)
    assert [turns.begin(1.0), turns.begin(1.0)] == ["large", None]
    for name in ("middle", "large"):
        turns.end(name, is_good=True)
    assert turns.is_over


def test_who_had_trouble_in_a_run_that_gave_up_comes_last_so_that_others_show_whose_trouble_it_is() -> None:
    members = due_members(["ill", "iller", "well", "large"], {"ill": 1, "iller": 1, "well": 30, "large": 900}, ["ill"])
    turns = Turns(members)
    assert [one.name for one in turns.waiting] == ["iller", "well", "large", "ill"]


def test_a_slow_turn_gets_a_worker_beside_it_and_no_more_than_four_work() -> None:
    turns = Turns(due(a=1, b=1, c=1, d=1, e=1))
    turns.begin(0.0)
    turns.begin(5.0)
    assert turns.begin(draining.SLOW_SECONDS) is None
    assert turns.begin(draining.SLOW_SECONDS + 1) == "c"  # a is slow
    assert turns.begin(draining.SLOW_SECONDS + 1) is None
    assert turns.begin(draining.SLOW_SECONDS + 6) == "d"  # b, too
    assert turns.begin(draining.SLOW_SECONDS + 40) is None


def test_a_turn_ends_after_a_time() -> None:
    turns = Turns(due(a=1, b=1))
    turns.begin(0.0)
    turns.begin(30.0)
    assert turns.overdue(draining.TURN_SECONDS) == []
    assert turns.overdue(draining.TURN_SECONDS + 1) == ["a"]


def asking(members: int) -> tuple[Turns, list[str]]:
    """Turns in which everybody who has had one asks a system that is silent, a second after it began."""
    turns, began = Turns(due(**{f"m{n:02}": 1 for n in range(members)})), list[str]()
    for moment in range(draining.TURNS_MAX):
        while (member := turns.begin(float(moment))) is not None:
            began.append(member)
        for member in began:
            if member not in turns.asks:
                turns.ask(member, "a registry", float(moment))
    return turns, began


def test_a_turn_that_waits_for_another_system_gives_its_place_to_those_who_wait_for_a_turn() -> None:
    turns = Turns(due(a=1, b=1, c=1, d=1))
    for member in (turns.begin(0.0), turns.begin(0.0)):
        turns.ask(str(member), "a registry", 0.0)
    assert turns.begin(draining.ANSWER_SECONDS) is None  # most answers have come by then
    assert turns.begin(draining.ANSWER_SECONDS + 0.1) == "c"
    turns.ask("a", None, 1.0)  # it works again
    assert turns.begin(draining.ANSWER_SECONDS + 0.1) is None


def test_no_more_than_some_turns_are_taken_at_once_whatever_they_wait_for() -> None:
    turns, began = asking(3 * draining.TURNS_MAX)
    assert len(began) == draining.TURNS_MAX
    assert turns.begin(1e9) is None


def test_a_turn_that_waits_for_long_ends() -> None:
    turns = Turns(due(a=1, b=1))
    turns.begin(0.0)
    turns.begin(0.0)
    turns.ask("a", "a registry", 5.0)
    assert turns.overdue(5.0 + draining.SILENCE_SECONDS) == []
    assert turns.overdue(5.1 + draining.SILENCE_SECONDS) == ["a"]
    turns.end("a", is_good=False, is_retryable=True)
    turns.ask("b", "a registry", 20.0)
    turns.ask("b", None, 20.1)
    assert turns.overdue(59.0) == []


@pytest.mark.parametrize(
    ("ends", "is_shared"),
    [
        ([(False, True)] * 2, False),
        ([(False, True)] * 3, True),
        ([(True, False), *[(False, True)] * 9], False),  # one has done well
        ([(False, False)] * 9, False),  # a person must act for each
    ],
)
def test_trouble_is_shared_if_all_turns_fail_in_a_way_that_may_pass(
    ends: list[tuple[bool, bool]], is_shared: bool
) -> None:
    turns = Turns(due(**{f"m{n}": 1 for n in range(len(ends))}))
    for is_good, is_retryable in ends:
        turns.end(str(turns.begin(0.0)), is_good, is_retryable)
    assert turns.is_shared_trouble(0.0) == is_shared


def test_trouble_is_not_shared_while_somebody_is_at_work_who_may_do_well_and_nobody_begins_meanwhile() -> None:
    turns = Turns(due(a=1, b=2, c=3, large=9_000, last=9_001))
    turns.begin(0.0)
    turns.begin(0.0)
    for ill, begins in (("a", "c"), ("b", "large")):
        turns.end(ill, is_good=False, is_retryable=True)
        assert turns.begin(1.0) == begins
    turns.end("c", is_good=False, is_retryable=True)
    assert not turns.is_shared_trouble(1.0)
    assert turns.begin(1.0) is None
    turns.ask("large", "a registry", 1.0)
    assert turns.is_shared_trouble(1.1 + draining.ANSWER_SECONDS)  # it only waits, as the others did
    turns.ask("large", None, 3.0)
    turns.end("large", is_good=True)
    assert not turns.is_shared_trouble(3.0)
    assert turns.begin(3.0) == "last"


def test_a_run_is_for_those_that_it_was_started_for_or_for_all() -> None:
    assert due_members(["a", "b"], {"b": 7, "gone": 1}) == due(b=7)
    assert due_members(["a", "b"], None) == due(a=0, b=0)


def test_what_is_too_much_for_a_turn() -> None:
    assert [one.is_large for one in due(a=200_000, b=200_001)] == [False, True]
