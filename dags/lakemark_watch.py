"""The DAG `lakemark_watch`: every minute it checks whether a table or a sink has become stale, or fresh again, and says
so once.

`stale_after_minutes` in the pipeline file, or in a sink's section, says when it is, and `LAKEMARK_ALERTS` says whom to
tell. The DAG needs no Spark. It has no schedule if nothing can become stale.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

import lakemark_alerts  # in plugins/, which Airflow puts on the path
import lakemark_connections  # noqa: F401, makes them known
import lakemark_metrics
from airflow.sdk import DAG, Variable, get_current_context, task
from lakemark_bundle import is_configured
from lakemark_names import TAG, WATCH_DAG

from include.monitoring.alerts import staleness_alerts
from include.monitoring.staleness import look, look_at_sink
from include.pipeline_file import Pipeline, load_pipelines
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)
REMEMBERED = "lakemark_stale"  # the variable that remembers what was told already


def build(settings: Settings) -> DAG:
    found, _ = load_pipelines(settings.pipelines, settings.environment)
    watched = any(pipeline.stale_after_minutes is not None or _watched(pipeline) for pipeline in found)
    with DAG(
        dag_id=WATCH_DAG,
        description="Sends an alert when a table or a sink becomes stale, and when it is fresh again.",
        doc_md=__doc__,
        schedule="* * * * *" if watched else None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=[TAG],
    ) as dag:

        @task
        def stale() -> dict[str, str]:
            """The reason for each pipeline, and for each sink (NAME, sink SINK), that is stale."""
            before: dict[str, str] = Variable.get(REMEMBERED, default={}, deserialize_json=True)
            now: dict[str, str] = {}
            for pipeline in load_pipelines(settings.pipelines, settings.environment)[0]:
                for name, look_at in looks(settings, pipeline).items():
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


def looks(settings: Settings, pipeline: Pipeline) -> dict[str, Callable[[], str | None]]:
    """What can become stale, and what says whether it is."""
    found: dict[str, Callable[[], str | None]] = {}
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
