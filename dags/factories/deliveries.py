"""One DAG `lakemark__NAME__deliver__SINK` for every sink of a valid file in include/pipelines/.

It is a DAG of its own, so that a sink that does not answer never holds up a batch, or another sink: no run waits for a
delivery, and none fails with it. It runs after every run of the pipeline that has committed something, and after what
changes rows beside them: backfills, restores. It goes on where the sink stands, and so delivers what earlier runs could
not.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import lakemark_metrics  # in plugins/, which Airflow puts on the path
from airflow.sdk import DAG, Asset, AssetAny, task
from airflow.sdk.types import DagRunProtocol
from lakemark_names import DAG_PREFIX, TAG
from lakemark_tasks import TASKS, asked_by, rows_changed, work_on

from include.control.deliveries import Deliverer
from include.monitoring.sinks import facts_of
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.settings import Settings

_DAY = 24 * 12  # retries: with the longest delay between two of them, a day


def build(pipeline: Pipeline, settings: Settings) -> list[DAG]:
    return [build_of(pipeline, settings, sink) for sink in pipeline.sinks]


def build_of(pipeline: Pipeline, settings: Settings, sink: str) -> DAG:
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__deliver__{sink}",
        description=f"Delivers what lands in {pipeline.target.table} to the sink {sink}.",
        doc_md=__doc__,
        schedule=AssetAny(Asset(pipeline.target.table), *rows_changed(pipeline)),
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        default_args={**TASKS, "retries": _DAY, "max_retry_delay": timedelta(minutes=5)},
        tags=[TAG, "deliver"],
        is_paused_upon_creation=False,  # nothing lands while the pipeline itself is paused
    ) as dag:

        @task(doc_md="Delivers all that the sink lacks. Safe to clear at any time.")
        def deliver(dag_run: DagRunProtocol) -> JsonObject | None:
            with work_on(pipeline.name):
                try:
                    done = Deliverer(settings, pipeline, sink, asked_by(dag_run)).deliver()
                finally:  # also how far a sink is behind that does not answer
                    send_lag(settings, pipeline, sink)
            return None if done is None else done.to_json()

        deliver()
    return dag


def send_lag(settings: Settings, pipeline: Pipeline, sink: str) -> None:
    """Sends metrics, if they are on. No delivery fails because of them."""
    if not lakemark_metrics.are_on():
        return
    with suppress(LakemarkError):
        facts = facts_of(settings, pipeline, sink)
        if facts.lag is not None:
            lakemark_metrics.of_sink(pipeline.name, sink, facts.lag)
