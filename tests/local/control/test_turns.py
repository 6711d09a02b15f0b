"""Who works long on a pipeline's tables has a turn: nothing is planned meanwhile, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.control import turns
from include.control.coordinator import Coordinator
from include.control.turns import turn
from include.protocol.ledger_events import TurnTaken
from include.protocol.planning import NewBatch, PendingBatch
from tests.support.tables_before import with_one_batch
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("_kafka")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LOOK_SECONDS", 0.02)


class Planning(threading.Thread):
    """A plan beside the test."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(daemon=True)
        self.coordinator, self.plan = coordinator, None
        self.start()

    def run(self) -> None:
        self.plan = self.coordinator.plan()


def test_nothing_is_planned_within_a_turn_and_all_goes_on_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = with_one_batch(tmp_path)
    caplog.set_level("INFO")
    with turn(coordinator.ledger, "maintenance"):
        planning = Planning(coordinator)
        wait_until(lambda: "maintenance has its turn" in caplog.text, 20)
        assert planning.is_alive()
        assert coordinator.ledger.state().pending is None
    planning.join(20)
    assert isinstance(planning.plan, NewBatch)
    assert coordinator.ledger.state().turns.get("planning") is None


def test_a_turn_begins_once_what_was_planned_has_landed_and_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = with_one_batch(tmp_path)
    assert isinstance(coordinator.plan(), NewBatch)
    asked: list[PendingBatch] = []

    def look(until: object, seconds: float) -> None:
        asked.append(coordinator.plan())  # type: ignore[arg-type]  # within the turn: what was planned before it

    monkeypatch.setattr(turns, "_wait", look)
    with turn(coordinator.ledger, "maintenance"):
        pass
    [found] = asked
    assert isinstance(found, PendingBatch)


def test_the_turn_of_a_dead_holder_ends_by_itself(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    until = (datetime.now(UTC) + timedelta(seconds=0.3)).isoformat()
    coordinator.ledger.append(lambda state: [TurnTaken(1, "one that died", until)])
    assert isinstance(coordinator.plan(), NewBatch)
    assert datetime.now(UTC).isoformat() > until


def test_a_dead_holder_whose_clock_was_ahead_keeps_nobody_waiting_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LENGTH", timedelta(seconds=0.3))
    coordinator = with_one_batch(tmp_path)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    coordinator.ledger.append(lambda state: [TurnTaken(1, "one that died", until)])
    planning = Planning(coordinator)
    planning.join(20)
    assert isinstance(planning.plan, NewBatch)
    assert coordinator.ledger.state().turns.get("planning") is None  # whoever plans next does not wait again


def test_a_holder_that_comes_too_late_ends_no_turn_but_its_own(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with turn(coordinator.ledger, "maintenance"):
        coordinator.ledger.append(lambda state: [TurnTaken(1, "a chunk", until)])
    found = coordinator.ledger.state().turns.get("planning")
    assert found is not None
    assert found.holder == "a chunk"


def test_a_long_turn_is_taken_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = with_one_batch(tmp_path)
    monkeypatch.setattr(turns, "_RENEWED_AFTER", timedelta(seconds=0.05))
    with turn(coordinator.ledger, "maintenance"):
        first = coordinator.ledger.state().turns.get("planning")
        assert first is not None
        assert first.until is not None
        wait_until(
            lambda: (now := coordinator.ledger.state().turns.get("planning")) and str(now.until) > str(first.until), 20
        )
    assert coordinator.ledger.state().turns.get("planning") is None


def test_a_turn_over_files_keeps_nobody_from_planning(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    with turn(coordinator.ledger, "maintenance", over="files"):
        assert isinstance(coordinator.plan(), NewBatch)
        assert [*coordinator.ledger.state().turns] == ["files"]
    assert not coordinator.ledger.state().turns


def test_no_clock_ends_a_turn_over_files_before_who_waits_has_seen_it_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder lives, and its clock is behind by more than a turn's length."""
    monkeypatch.setattr(turns, "LENGTH", timedelta(seconds=0.3))
    coordinator, until = with_one_batch(tmp_path), (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
    coordinator.ledger.append(lambda state: [TurnTaken(1, "maintenance", until, "files")])
    assert not turns._take(coordinator.ledger, "going back", "files")
    with turn(coordinator.ledger, "going back", over="files"):  # it was not taken again
        assert coordinator.ledger.state().turns["files"].holder == "going back"


def test_one_holder_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, order, waits, wait = with_one_batch(tmp_path), list[str](), threading.Event(), turns._wait

    def told(until: Callable[[], bool], seconds: float) -> None:
        waits.set()
        wait(until, seconds)

    def second() -> None:
        with turn(coordinator.ledger, "a chunk"):
            order.append("a chunk")

    with turn(coordinator.ledger, "maintenance"):
        monkeypatch.setattr(turns, "_wait", told)
        other = threading.Thread(target=second, daemon=True)
        other.start()
        assert waits.wait(20)
        order.append("maintenance")
    other.join(20)
    assert order == ["maintenance", "a chunk"]
