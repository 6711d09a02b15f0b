"""Whether a pipeline's table is stale, or its maintenance overdue."""

from __future__ import annotations

from datetime import UTC, datetime

from include.control.lag import Lag
from include.lake.ledger import Ledger
from include.monitoring.health import sink_stale_because, stale_because, unmaintained_because
from include.monitoring.sinks import facts_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.settings import Settings


def look(settings: Settings, pipeline: Pipeline) -> tuple[Lag, str | None]:
    """How much waits; and why that makes the table stale, None if it does not.

    Raises:
        RetryableError: Kafka does not answer. TerminalError: a topic is gone, or the ledger is damaged.
    """
    lag = Lag.of(pipeline, Ledger(Tables.of(settings, pipeline).ledger).recent())
    minutes = pipeline.stale_after_minutes
    return lag, None if minutes is None else stale_because(lag.seconds, minutes * 60)


def look_at_sink(settings: Settings, pipeline: Pipeline, name: str) -> str | None:
    """Why a sink is stale; None: it is not, or somebody has paused it, or nothing is said of when it would be.

    Raises:
        TableDamaged: the target's log is damaged. TerminalError: the ledger is.
    """
    minutes, facts = pipeline.sinks[name].stale_after_minutes, facts_of(settings, pipeline, name)
    if minutes is None or facts.lag is None or facts.standing.paused is not None:
        return None
    return sink_stale_because(facts.lag.seconds, minutes * 60, pipeline=pipeline.name, sink=name)


def look_at_maintenance(settings: Settings, pipeline: Pipeline) -> str | None:
    """Why a pipeline's maintenance is overdue; None: it is not, or there is nothing yet to maintain.

    Raises:
        TerminalError: the ledger is damaged.
    """
    ledger = Ledger(Tables.of(settings, pipeline).ledger)
    if (began_at := ledger.created_at()) is None:
        return None
    ended_at = ledger.recent().maintained_at
    maintained_at = datetime.fromisoformat(ended_at) if ended_at is not None else None
    hours = settings.maintenance_overdue_hours
    return unmaintained_because(pipeline.name, maintained_at, began_at, now=datetime.now(UTC), hours_max=hours)
