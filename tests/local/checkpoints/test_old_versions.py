"""Old versions are not taken up while files are removed: maintenance, and who goes back, have turns (over files)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from include.checkpoints.listing import checkpoints_in
from include.checkpoints.restoring import Restoring
from include.control import turns
from include.control.coordinator import Coordinator
from include.control.turns import turn
from include.protocol.checkpoints import named
from include.protocol.errors import TerminalError
from tests.support.saved import saved, vacuumed
from tests.support.six_batches import IN_KAFKA, made
from tests.support.tables_before import ask
from tests.support.waiting import wait_until


def go_back(coordinator: Coordinator) -> object:
    to = named("p", checkpoints_in(coordinator.settings, coordinator.pipeline), "1/1")
    return Restoring(coordinator, to, "a test", "me").restore()


@pytest.mark.parametrize("take_up", [go_back, lambda coordinator: saved(coordinator, at="1")])
def test_who_takes_up_an_old_version_waits_and_then_looks_whether_it_is_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    take_up: Callable[[Coordinator], object],
) -> None:
    monkeypatch.setattr(turns, "_LOOK_SECONDS", 0.02)
    ask(monkeypatch, IN_KAFKA)
    coordinator, ended = made(tmp_path), list[TerminalError]()

    def other() -> None:
        try:
            take_up(coordinator)
        except TerminalError as error:
            ended.append(error)

    with turn(coordinator.ledger, "maintenance", over="files"):
        waiting = threading.Thread(target=other, daemon=True)
        waiting.start()
        wait_until(lambda: "maintenance has its turn" in caplog.text, 20)
        vacuumed(coordinator)
    waiting.join(20)
    assert len(ended) == 1
    assert "checkpoint list" in ended[0].action, ended
    assert not coordinator.ledger.state().generations
    assert not (Path(str(coordinator.tables.savepoints)) / "s").exists()
