"""A drain with workers that are made up: what becomes of each turn, whatever becomes of its worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from include.jobs import drain as drains
from include.jobs.drain import Drain
from include.protocol.draining import TURNS_MAX, Due
from include.protocol.errors import OutcomeUnknownError, RetryableError, TerminalError
from include.protocol.json_data import JsonObject

_PARTS = {"what": "w", "where": "x", "expected": "y", "found": "z", "action": "call Ada"}
WELL, RETRYABLE, TERMINAL, DIES, HANGS = "well", "retryable", "terminal", "dies", "hangs"
ASKS, LATER = "asks", "later"


@dataclass
class MadeUp:
    """Stands in for a process: a member's name says how its turn goes."""

    all: list[MadeUp]
    turns: list[str] = field(default_factory=list)
    is_over: bool = False
    is_dismissed: bool = False
    looks: int = 0
    _facts: list[JsonObject] = field(default_factory=list)
    _late: bool = False

    def give(self, member: str, variables: Mapping[str, str]) -> None:
        assert variables == {"OF": member}
        self.turns.append(member)
        how = member.partition("_")[0]
        result = {"result": {"pipeline": member, "batch_id": 0}}
        error = {RETRYABLE: RetryableError(**_PARTS), TERMINAL: TerminalError(**_PARTS)}
        facts = [result] if how in (WELL, DIES, HANGS, ASKS, LATER) else [result, error[how].facts()]
        ends = {DIES: [], HANGS: [], ASKS: [{"asks": "the registry"}]}.get(how, [{"asks": None}, {"ended": True}])
        self.is_over = how == DIES
        self._facts, self._late = [{"member": member, **fact} for fact in (*facts, *ends)], how == LATER

    def facts(self) -> list[JsonObject]:
        self.looks += 1
        if self._late and self.looks < 250:
            return []
        new, self._facts = self._facts, []
        return new

    def logged(self) -> list[str]:
        return [f"a line of {self.turns[-1]}"]

    def ending(self) -> str | None:
        return "killed by SIGKILL" if self.is_over else None

    def dismiss(self) -> None:
        self.is_dismissed = True

    def end(self) -> None:
        self.is_over = True


def has_code(member: str) -> bool:
    return member.endswith("_code")


def drain_with(start: Callable[[], MadeUp]) -> Drain:
    return Drain(start, has_code, lambda name: {"OF": name}, lambda name, fact: None, lambda name, line: None)


def drained(*members: str) -> tuple[dict[str, object], list[MadeUp]]:
    """The class of each member's error, or its results; and all workers."""
    workers: list[MadeUp] = []

    def start() -> MadeUp:
        workers.append(MadeUp(workers))
        return workers[-1]

    drain = drain_with(start)
    try:
        ended = list(drain.run([Due(0, name) for name in members]))
    finally:
        assert all(worker.is_over for worker in workers)
    return {one.member: one.error and type(one.error) for one in ended}, workers


def test_who_brings_code_has_a_worker_that_has_served_nobody_and_will_serve_nobody() -> None:
    became, workers = drained("well_1", "well_2_code", "well_3", "well_4_code", "well_5")
    assert set(became.values()) == {None}
    assert all(len(worker.turns) == 1 for worker in workers if any(map(has_code, worker.turns)))
    assert sum(len(worker.turns) for worker in workers) == 5
    assert all(worker.is_dismissed for worker in workers)


def test_two_workers_serve_all_and_are_let_go() -> None:
    became, workers = drained(*(f"well_{n}" for n in range(7)))
    assert became == {f"well_{n}": None for n in range(7)}
    assert len(workers) == 2
    assert sum(len(worker.turns) for worker in workers) == 7
    assert all(worker.is_dismissed for worker in workers)


def test_each_turn_has_its_own_end() -> None:
    became, _ = drained("dies_1", "retryable_1", "terminal_1", "well_1", "well_2")
    assert became == {
        "dies_1": OutcomeUnknownError,
        "retryable_1": RetryableError,
        "terminal_1": TerminalError,
        "well_1": None,
        "well_2": None,
    }


def test_what_a_turn_has_landed_before_it_failed_is_told() -> None:
    drain = Drain(
        lambda: MadeUp([]), has_code, lambda name: {"OF": name}, lambda name, fact: None, lambda name, line: None
    )
    assert [one.results for one in drain.run([Due(0, "dies_1")])] == [[{"pipeline": "dies_1", "batch_id": 0}]]


def test_a_turn_that_hangs_is_ended_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(drains.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drains.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 1))
    became, workers = drained("hangs_1", "hangs_2", "well_1", "well_2")
    assert became == {"well_1": None, "well_2": None, "hangs_1": RetryableError, "hangs_2": RetryableError}
    assert len(workers) == 4  # one stands beside each that hangs


def test_a_turn_that_ends_in_the_moment_in_which_it_is_too_late_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def later() -> float:
        now[0] += 100
        return now[0]

    monkeypatch.setattr(drains.time, "monotonic", later)
    assert drained("well_1")[0] == {"well_1": None}


def test_those_who_wait_for_a_silent_system_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(drains.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drains.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 0.1))
    due = [Due(n, f"{ASKS}_{n}") for n in range(8)] + [Due(99, "well_1"), Due(99, "well_2_code")]
    began = {one.member: (now[0], one.error) for one in drain_with(lambda: MadeUp([])).run(due)}
    assert all(began[name][0] < 10 for name in ("well_1", "well_2_code"))
    assert now[0] < 20
    errors = [str(error) for name, (_, error) in began.items() if name.startswith(ASKS)]
    assert all("waits for the registry" in error for error in errors)
    assert len(errors) == 8


def test_a_run_that_gives_up_knows_who_was_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the others come first in the next one, however many wait for the same silent system."""
    now = [0.0]
    monkeypatch.setattr(drains.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drains.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 0.1))
    names = [f"{ASKS}_{n:02}" for n in range(40)]
    drain = drain_with(lambda: MadeUp([]))
    with pytest.raises(RetryableError):
        list(drain.run([Due(1, name) for name in names]))
    assert len(drain.suspects) >= TURNS_MAX
    assert drain.suspects == names[: len(drain.suspects)]


@pytest.mark.parametrize("ill", [RETRYABLE, ASKS, DIES])
def test_members_that_fail_do_not_end_the_turn_of_one_that_works(monkeypatch: pytest.MonkeyPatch, ill: str) -> None:
    now = [0.0]
    monkeypatch.setattr(drains.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drains.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 0.1))
    due = [Due(0, f"{LATER}_1"), *(Due(1, f"{ill}_{n}") for n in range(6))]
    became = {one.member: one.error for one in drain_with(lambda: MadeUp([])).run(due)}
    assert became[f"{LATER}_1"] is None
    assert len(became) == 7


def test_a_worker_that_died_idle_gets_no_turn() -> None:
    workers: list[MadeUp] = []
    drain = Drain(
        lambda: MadeUp(workers), has_code, lambda name: {"OF": name}, lambda name, fact: None, lambda name, line: None
    )
    ended = drain.run([Due(n, f"well_{n}") for n in range(5)])
    first = next(ended)
    for worker in drain._idle:
        worker.is_over = True
    assert [first.error, *(one.error for one in ended)] == [None] * 5


def test_trouble_that_all_share_fails_the_run() -> None:
    with pytest.raises(RetryableError, match="call Ada"):
        drained(*(f"retryable_{n}" for n in range(9)))
