"""Savepoints of a pipeline of six batches, and VACUUM by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.control.coordinator import Coordinator
from include.lake.merge.frozen import names_of
from include.lake.merge.snapshot import Snapshot
from include.protocol.savepoints import Savepoint
from include.savepoints.making import Making
from include.savepoints.restoring import restoring
from tests.support.six_batches import IN_KAFKA
from tests.support.tables_before import ask


def saved(coordinator: Coordinator, name: str = "s", **told: object) -> Savepoint:
    pipeline = coordinator.settings.pipelines / "p.yaml"
    pipeline.parent.mkdir(parents=True, exist_ok=True)
    if not pipeline.exists():
        pipeline.write_text("name: p\n")
    told = {"reason": "a test", "created_by": "me", **told}
    return Making(coordinator.settings, coordinator.pipeline, name, **told).make()  # type: ignore[arg-type]


def place(coordinator: Coordinator, name: str = "s") -> Path:
    return Path(str(coordinator.tables.savepoints / name))


def vacuumed(coordinator: Coordinator) -> None:
    """As VACUUM by hand without retention: nothing but the newest version is left."""
    live = names_of(Snapshot.of(coordinator.tables.target))
    for file in Path(str(coordinator.tables.target)).iterdir():
        if file.is_file() and file.name not in live:
            file.unlink()


def went_back(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, name: str = "s") -> None:
    ask(monkeypatch, IN_KAFKA)
    restoring(coordinator.settings, coordinator.pipeline, name, "a test", "me").restore()
