"""The DAG `lakemark_watch`: what it looks at, and when; the page tells of the same. Real Delta files, no Kafka."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag  # noqa: F401, puts plugins on the path
from lazy_object_proxy import Proxy

from include.control.coordinator import Coordinator
from include.monitoring.health import Scheduler
from include.monitoring.overview import Overview
from include.pipeline_file import find_pipeline
from include.protocol.ledger_events import MaintenanceEnded
from include.settings import Settings
from tests.support.hand_made import coordinator_of, known_to_commands

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(hours=90)


@pytest.fixture
def p(tmp_path: Path) -> Coordinator:
    """A pipeline `p`, whose maintenance last ended 90 hours ago."""
    coordinator = coordinator_of(tmp_path)
    coordinator.ledger.append(lambda state: [MaintenanceEnded(1, long_ago().isoformat(), "me")])
    return coordinator


def test_the_watch_looks_at_maintenance_once_an_hour_and_keeps_in_between_what_it_found(
    p: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = importlib.import_module("dags.lakemark_watch")
    before = {"p, maintenance": "as it was"}

    def seen(settings: Settings, is_hourly: bool) -> dict[str, str | None]:
        looks = watch.looks(settings, p.pipeline, before, is_hourly=is_hourly)
        return {name: look_at() for name, look_at in looks.items()}

    assert seen(p.settings, is_hourly=False) == before
    assert "it last ended 90 hours ago" in str(seen(p.settings, is_hourly=True)["p, maintenance"])
    monkeypatch.setenv("LAKEMARK_MAINTENANCE_OVERDUE_HOURS", "")
    assert seen(Settings.from_environment(), is_hourly=True) == {}
    assert watch.build(Settings.from_environment()).schedule is None
    monkeypatch.delenv("LAKEMARK_MAINTENANCE_OVERDUE_HOURS")
    assert watch.build(Settings.from_environment()).schedule == "0 * * * *"


@pytest.mark.parametrize(
    ("run_type", "before", "expected"),
    [
        ("scheduled", NOON - timedelta(minutes=1), True),
        ("scheduled", NOON - timedelta(hours=5), True),
        ("scheduled", NOON + timedelta(minutes=1), False),
        ("scheduled", None, True),
        ("manual", NOON + timedelta(minutes=1), True),
    ],
)
def test_it_does_so_in_the_first_run_of_an_hour_whichever_minute_that_is(
    run_type: str, before: datetime | None, expected: bool
) -> None:
    run = SimpleNamespace(run_type=run_type, start_date=NOON + timedelta(minutes=7))
    watch = importlib.import_module("dags.lakemark_watch")
    as_airflow_gives_it = Proxy(lambda: before)
    assert watch._is_hourly({"dag_run": run, "prev_start_date_success": as_airflow_gives_it}) is expected


def test_the_page_tells_of_the_half_that_is_overdue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known_to_commands(coordinator_of(tmp_path, archive="lake://bronze/p", merge_every=2), tmp_path, monkeypatch)
    settings = Settings.from_environment()
    overview, pipeline = Overview(settings), find_pipeline("p", settings.pipelines, settings.environment)
    monkeypatch.setattr(overview, "_with_kafka", lambda seen: seen)

    def told() -> object:
        overview.look()
        facts = importlib.import_module("lakemark_page_app.facts")
        summary = facts.summary(overview._seen["p"], Scheduler(), overdue_hours=72)
        return summary["why"] if summary["state"] == "unmaintained" else None

    for half in pipeline.halves:
        Coordinator(settings, half).ledger.append(lambda _: [MaintenanceEnded(1, long_ago().isoformat(), "me")])
    assert "`lakemark maintain p__landing`" in str(told())
    for half, expected in zip(pipeline.halves, ("`lakemark maintain p`", "None"), strict=True):
        now = datetime.now(UTC).isoformat()
        Coordinator(settings, half).ledger.append(lambda _, at=now: [MaintenanceEnded(1, at, "me")])
        assert expected in str(told())
