"""The DAG `lakemark_watch`: every minute it checks whether a table has become stale, or fresh again, and says so once.

`stale_after_minutes` in the pipeline file says when a table is stale, and `LAKEMARK_ALERTS` says whom to tell. The DAG
needs no Spark. It has no schedule if no pipeline can become stale.
"""

from __future__ import annotations

import logging
from datetime import datetime

import lakemark_alerts  # in plugins/, which Airflow puts on the path
import lakemark_connections  # noqa: F401, makes them known
import lakemark_metrics
from airflow.sdk import DAG, Variable, get_current_context, task
from lakemark_names import TAG, WATCH_DAG

from include.monitoring.alerts import staleness_alerts
from include.monitoring.staleness import look
from include.pipeline_file import load_pipelines
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)
REMEMBERED = "lakemark_stale"  # the variable that remembers what was told already


def build(settings: Settings) -> DAG:
    found, _ = load_pipelines(settings.pipelines, settings.environment)
    watched = any(pipeline.stale_after_minutes is not None for pipeline in found)
    with DAG(
        dag_id=WATCH_DAG,
        description="Sends an alert when a table becomes stale, and when it is fresh again.",
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
            """The reason for each pipeline that is stale."""
            before: dict[str, str] = Variable.get(REMEMBERED, default={}, deserialize_json=True)
            now: dict[str, str] = {}
            for pipeline in load_pipelines(settings.pipelines, settings.environment)[0]:
                if pipeline.stale_after_minutes is None:
                    continue
                try:
                    lag, why = look(settings, pipeline)
                except LakemarkError as error:  # not known now, so it stays as it was
                    log.warning("%s: %s", pipeline.name, error)
                    why = before.get(pipeline.name)
                else:
                    lakemark_metrics.of_lag(pipeline.name, lag)
                if why is not None:
                    now[pipeline.name] = why
            for alert in staleness_alerts(before, now):
                log.info("%s: %s", alert.title, alert.text)
                lakemark_alerts.tell(alert, get_current_context())
            if now != before:
                Variable.set(REMEMBERED, now, "What lakemark_watch found stale at its last check", serialize_json=True)
            return now

        stale()
    return dag


dag = build(Settings.from_environment())
