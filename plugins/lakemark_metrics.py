"""Sends metrics of pipelines through Airflow's own StatsD or OpenTelemetry, if Airflow is set up to send metrics.

Names contain the pipeline, because plain StatsD drops tags; docs/airflow.md lists them. The job that does the work
sends them once: a job that was killed after its commit has sent nothing, and a cleared task sends nothing twice.
"""

from __future__ import annotations

from contextlib import suppress

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from include.control.coordinator import Coordinator
from include.control.lag import Lag
from include.monitoring.sinks import SinkLag
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonMapping


def of_job(pipeline: str, fact: JsonMapping) -> None:
    """Sends the metrics that a line of the job's JSON stands for."""
    match fact:
        case {"result": {"outcome": "applied", "phase_seconds": seconds, "counts": counts}}:
            _count("batches", pipeline)
            for phase, duration in seconds.items():
                stats.timing(f"lakemark.{phase}_duration.{pipeline}", duration * 1000)
            for disposition, records in (counts or {}).items():
                _count(f"records_{disposition}", pipeline, records)
        case {"progress": "conflict"}:
            _count("conflicts", pipeline)
        case {"error": name}:
            _count("failed_attempts", pipeline)
            _count(f"failed_attempts_{name}", pipeline)


def of_lag(pipeline: str, lag: Lag) -> None:
    """Sends how many records are not in the table yet, and how old the oldest of them is."""
    stats.gauge(f"lakemark.lag_records.{pipeline}", lag.records)
    stats.gauge(f"lakemark.lag_seconds.{pipeline}", round(lag.seconds, 1))


def of_lag_now(coordinator: Coordinator) -> None:
    """Measures the lag, which costs a call to Kafka, and sends it; if metrics are on. Nothing fails because of them."""
    if are_on():
        with suppress(LakemarkError):
            of_lag(coordinator.pipeline.name, Lag.of(coordinator.pipeline, coordinator.ledger.recent()))


def of_sink(pipeline: str, sink: str, lag: SinkLag) -> None:
    """Sends how far a sink is behind the lake."""
    stats.gauge(f"lakemark.sink_lag_rows.{pipeline}.{sink}", lag.rows)
    stats.gauge(f"lakemark.sink_lag_batches.{pipeline}.{sink}", lag.batches)
    stats.gauge(f"lakemark.sink_lag_seconds.{pipeline}.{sink}", round(lag.seconds, 1))


def are_on() -> bool:
    """Whether metrics are on."""
    return any(conf.getboolean("metrics", name) for name in ("statsd_on", "statsd_datadog_enabled", "otel_on"))


def _count(what: str, pipeline: str, number: int = 1) -> None:
    stats.incr(f"lakemark.{what}.{pipeline}", number)
