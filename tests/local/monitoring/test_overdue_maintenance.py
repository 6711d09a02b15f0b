"""That maintenance has run is in the ledger, and so is when it is overdue. Real Delta files, no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from include.cli.status import _status_lines
from include.control.coordinator import Coordinator
from include.lake.uri import LakeUri
from include.monitoring.health import Health, Scheduler, judge, unmaintained_because
from include.monitoring.ledger_reader import LedgerReader
from include.monitoring.staleness import look_at_maintenance
from include.monitoring.status import status
from include.protocol.ledger_events import BatchPlanned, MaintenanceEnded
from include.settings import Settings
from spark_jobs.commands.maintenance import Maintenance
from tests.support.batches import batch, committed
from tests.support.hand_made import coordinator_of, known_to_commands, land, make_target

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def p(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """A pipeline `p` with a batch."""
    coordinator = known_to_commands(coordinator_of(tmp_path), tmp_path, monkeypatch)
    land(make_target(coordinator), 1, batch(0))
    coordinator.ledger.append(lambda state: [BatchPlanned(batch(0)), committed(batch(0))])
    return coordinator


def no_spark() -> NoReturn:
    raise AssertionError("it asked for Spark")


def ended(coordinator: Coordinator, at: datetime) -> None:
    coordinator.ledger.append(lambda state: [MaintenanceEnded(1, at.isoformat(), "me")])


@pytest.mark.parametrize(
    ("ended_at", "began_at", "hours_max", "why"),
    [
        (NOON - timedelta(hours=72), NOON - timedelta(days=300), 72, None),
        (NOON - timedelta(hours=73), NOON - timedelta(days=300), 72, "it last ended 73 hours ago, more than 72."),
        (None, NOON - timedelta(hours=72), 72, None),
        (None, NOON - timedelta(hours=100), 72, "it has never run, and the pipeline began 100 hours ago"),
        (None, NOON - timedelta(days=300), None, None),
    ],
)
def test_maintenance_is_overdue_by_hours(
    ended_at: datetime | None, began_at: datetime, hours_max: int | None, why: str | None
) -> None:
    found = unmaintained_because("p", ended_at, began_at, NOON, hours_max)
    assert (found is None) if why is None else (why in str(found) and "`lakemark maintain p`" in str(found))


@pytest.mark.parametrize(
    ("schedule", "given", "hours"),
    [
        (None, None, 72),
        ("0 3 * * *", None, 72),
        ("*/10 * * * *", None, 72),
        ("0 3 * * 0", None, 3 * 7 * 24),
        ("@weekly", None, 3 * 7 * 24),
        ("0 3 * * 1-5", None, 3 * 3 * 24),
        ("nonsense", None, 72),
        ("", None, None),
        ("", "100", 100),
        ("0 3 * * 0", "100", 100),
        ("0 3 * * 0", "", None),
    ],
)
def test_by_default_three_runs_of_the_schedule_may_be_missing(
    schedule: str | None, given: str | None, hours: int | None
) -> None:
    named = {"LAKEMARK_MAINTENANCE_SCHEDULE": schedule, "LAKEMARK_MAINTENANCE_OVERDUE_HOURS": given}
    settings = Settings.from_environment({name: text for name, text in named.items() if text is not None})
    assert settings.maintenance_overdue_hours == hours


def test_a_pipeline_whose_maintenance_is_overdue_is_red_unless_something_is_worse() -> None:
    known = {"problem": None, "attempt": None, "committed_at": NOON, "stale_after_seconds": 60.0}
    assert judge(**known, waiting_seconds=0.0, scheduler=Scheduler(paused=True), unmaintained="why") == Health(
        "unmaintained", "why"
    )
    assert judge(**known, waiting_seconds=90.0, scheduler=Scheduler(), unmaintained="why").state == "stale"


def test_a_quiet_pipelines_maintenance_asks_for_no_spark_and_is_recorded(p: Coordinator) -> None:
    Maintenance(no_spark, p.settings, p.pipeline, "ada", lambda fact: None).run()
    *_, event = p.ledger.events()
    assert isinstance(event, MaintenanceEnded)
    assert event.started_by == "ada"
    assert datetime.now(UTC) - datetime.fromisoformat(event.ended_at) < timedelta(minutes=5)


def test_maintenance_of_a_pipeline_that_has_never_run_makes_no_ledger(tmp_path: Path) -> None:
    coordinator = coordinator_of(tmp_path)
    Maintenance(no_spark, coordinator.settings, coordinator.pipeline, "ada", lambda fact: None).run()
    assert coordinator.ledger.created_at() is None
    assert look_at_maintenance(coordinator.settings, coordinator.pipeline) is None


def test_who_looks_at_the_ledger_sees_when_maintenance_last_ended(
    p: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, long_ago = LedgerReader(LakeUri(str(p.tables.ledger))), datetime.now(UTC) - timedelta(hours=90)
    assert reader.digest().maintained_at is None
    assert reader.digest().first_event_at == p.ledger.rows()[0]["recorded_at"]
    assert look_at_maintenance(p.settings, p.pipeline) is None  # it has just begun
    ended(p, long_ago)
    assert reader.digest().maintained_at == long_ago
    why = look_at_maintenance(p.settings, p.pipeline)
    assert "maintenance is overdue: it last ended 90 hours ago" in str(why)
    monkeypatch.setattr("include.monitoring.status._KAFKA_SECONDS", 0.1)  # there is none here
    facts = status(p.settings, p.pipeline)
    assert facts["maintenance"] == {"ended_at": long_ago.isoformat(), "overdue": why}
    assert f"  {why}" in [*_status_lines(facts)]
    for number in range(1, 6):  # also when the event lies before what planning reads
        p.ledger.append(lambda state, n=number: [BatchPlanned(batch(n)), committed(batch(n))])
    assert not p.ledger.recent().is_whole
    assert "it last ended 90 hours ago" in str(look_at_maintenance(p.settings, p.pipeline))
    ended(p, datetime.now(UTC))
    assert look_at_maintenance(p.settings, p.pipeline) is None
