"""The DAG `lakemark_watch`: what it looks at, and when. Real Delta files, no Kafka."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag  # noqa: F401, puts plugins on the path

from include.control.coordinator import Coordinator
from include.protocol.ledger_events import MaintenanceEnded
from include.settings import Settings
from tests.support.hand_made import coordinator_of

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def p(tmp_path: Path) -> Coordinator:
    """A pipeline `p`, whose maintenance last ended 90 hours ago."""
    coordinator, long_ago = coordinator_of(tmp_path), datetime.now(UTC) - timedelta(hours=90)
    coordinator.ledger.append(lambda state: [MaintenanceEnded(1, long_ago.isoformat(), "me")])
    return coordinator


def test_the_watch_looks_at_maintenance_once_an_hour_and_keeps_in_between_what_it_found(
    p: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = importlib.import_module("dags.lakemark_watch")
    before = {"p, maintenance": "as it was"}

    def seen(settings: Settings, due_at: datetime | None) -> dict[str, str | None]:
        looks = watch.looks(settings, p.pipeline, before, is_hourly=watch._is_hourly(due_at))
        return {name: look_at() for name, look_at in looks.items()}

    assert seen(p.settings, NOON + timedelta(minutes=7)) == before
    for due_at in (NOON, None):
        assert "it last ended 90 hours ago" in str(seen(p.settings, due_at)["p, maintenance"])
    monkeypatch.setenv("LAKEMARK_MAINTENANCE_OVERDUE_HOURS", "")
    assert seen(Settings.from_environment(), NOON) == {}
    assert watch.build(Settings.from_environment()).schedule is None
    monkeypatch.delenv("LAKEMARK_MAINTENANCE_OVERDUE_HOURS")
    assert watch.build(Settings.from_environment()).schedule == "0 * * * *"
