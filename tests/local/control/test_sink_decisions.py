"""What people have decided about sinks outlives the ledger that kept it; or else nothing is delivered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from include.control.coordinator import Coordinator
from include.control.rebuilding import LedgerRebuild
from include.control.sink_decisions import pause
from tests.support.batches import batch, source
from tests.support.hand_made import coordinator_of, land, make_target
from tests.support.tables_before import begun_with

LOST = "whether it was paused is lost with the ledger"


@pytest.mark.parametrize(
    ("lost", "app", "log"), [("nothing", "a migration (test)", None), ("a commit", LOST, LOST), ("all", LOST, LOST)]
)
def test_a_ledger_that_is_made_again_lets_no_paused_sink_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, app: str, log: str | None
) -> None:
    """One that can be read is behind the target."""
    sinks = {name: {"files": {"path": str(tmp_path / name)}} for name in ("app", "log")}
    coordinator = coordinator_of(tmp_path, sinks=sinks)
    target = make_target(coordinator)
    coordinator.ledger.append(lambda state: [begun_with(batch(0))])
    pause(coordinator.settings, coordinator.pipeline, "app", "a migration", "test")
    for number in range(3):
        land(target, number + 1, batch(number))
    folder = Path(str(coordinator.ledger.uri))
    if lost == "all":
        shutil.rmtree(folder)
    elif lost == "a commit":
        max((folder / "_delta_log").glob("*.json")).write_text("no JSON")
    monkeypatch.setattr(Coordinator, "source", lambda self, state=None: source({("t", 0): (0, 100)}))
    LedgerRebuild(coordinator).rebuild("lost", "test")
    sinks = coordinator.ledger.state().sinks
    assert {name: one.paused and one.paused.partition(";")[0] for name, one in sinks.items()} == {
        "app": app,
        "log": log,
    }
