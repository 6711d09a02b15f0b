"""The DAG `lakemark_watch`: every minute it checks whether a table or a sink has become stale, or fresh again, and says
so once. Every hour it also checks whether maintenance is overdue.

`stale_after_minutes` in the pipeline file, or in a sink's section, and `LAKEMARK_MAINTENANCE_OVERDUE_HOURS` say when it
is, and `LAKEMARK_ALERTS` says whom to tell. The DAG needs no Spark. It has only the schedule that it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

import lakemark_alerts  # in plugins/, which Airflow puts on the path
import lakemark_connections  # noqa: F401, makes them known
import lakemark_metrics
from airflow.sdk import DAG, Context, Variable, get_current_context, task
from lakemark_bundle import is_configured
from lakemark_names import TAG, WATCH_DAG
from lakemark_tasks import TASKS

from include.monitoring.alerts import staleness_alerts
from include.monitoring.staleness import look, look_at_maintenance, look_at_sink
from include.pipeline_file import Pipeline, load_pipelines
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)
_HOURLY = "0 * * * *"
REMEMBERED = "lakemark_stale"  # the variable that remembers what was told already


def build(settings: Settings) -> DAG:
    found, _ = load_pipelines(settings.pipelines, settings.environment)
    watched = any(pipeline.stale_after_minutes is not None or _watched(pipeline) for pipeline in found)
    with DAG(
        dag_id=WATCH_DAG,
        description="Sends an alert when a table, a sink or its maintenance becomes stale, and when it is fresh again.",
        doc_md=__doc__,
        schedule="* * * * *" if watched else _HOURLY if settings.maintenance_overdue_hours is not None else None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        default_args=TASKS,
        tags=[TAG],
    ) as dag:

        @task
        def stale() -> dict[str, str]:
            """The reason for each that is stale: NAME; NAME, sink SINK; NAME, maintenance."""
            before: dict[str, str] = Variable.get(REMEMBERED, default={}, deserialize_json=True)
            now: dict[str, str] = {}
            is_hourly = _is_hourly(get_current_context())
            for pipeline in load_pipelines(settings.pipelines, settings.environment)[0]:
                for name, look_at in looks(settings, pipeline, before, is_hourly=is_hourly).items():
                    try:
                        why = look_at()
                    except LakemarkError as error:  # not known now, so it stays as it was
                        log.warning("%s: %s", name, error)
                        why = before.get(name)
                    if why is not None:
                        now[name] = why
            for alert in staleness_alerts(before, now):
                log.info("%s: %s", alert.title, alert.text)
                lakemark_alerts.tell(alert, get_current_context())
            if now != before:
                Variable.set(REMEMBERED, now, "What lakemark_watch found stale at its last check", serialize_json=True)
            return now

        stale()
    return dag


def _is_hourly(context: Context) -> bool:
    """Whether the run is the first of its hour that does well, or one by hand."""
    run, before = context["dag_run"], context["prev_start_date_success"]
    # Airflow gives a proxy, also of None.
    return run.run_type != "scheduled" or not before or _hour(before) != _hour(run.start_date)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def looks(
    settings: Settings, pipeline: Pipeline, before: Mapping[str, str], *, is_hourly: bool
) -> dict[str, Callable[[], str | None]]:
    """What can become stale, and what says whether it is. Args: before: what was stale at the last check, and why."""
    found: dict[str, Callable[[], str | None]] = {}
    for half in pipeline.halves if settings.maintenance_overdue_hours is not None else ():
        name = f"{half.name}, maintenance"
        found[name] = partial(look_at_maintenance, settings, half) if is_hourly else partial(before.get, name)
    for sink in _watched(pipeline):
        found[f"{pipeline.name}, sink {sink}"] = partial(look_at_sink, settings, pipeline, sink)
    if pipeline.stale_after_minutes is not None:
        found[pipeline.name] = partial(_look_at_table, settings, pipeline)
    return found


def _look_at_table(settings: Settings, pipeline: Pipeline) -> str | None:
    lag, why = look(settings, pipeline)
    lakemark_metrics.of_lag(pipeline.name, lag)
    return why


def _watched(pipeline: Pipeline) -> list[str]:
    return [name for name, sink in pipeline.sinks.items() if sink.stale_after_minutes is not None]


def build_now() -> DAG:
    """The DAG, as the pipeline files are now. The bundle (plugins/lakemark_bundle.py) asks for it when they change."""
    return build(Settings.from_environment())


if not is_configured():
    dag = build_now()
