"""Whether a pipeline's table is stale."""

from __future__ import annotations

from include.control.lag import Lag
from include.lake.ledger import Ledger
from include.monitoring.health import stale_because
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
