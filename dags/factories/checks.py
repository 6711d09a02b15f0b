"""One DAG `lakemark__NAME__checks` for every pipeline file that names a suite for its table.

It judges the target itself, at one version: unique keys, freshness, references to other tables. A rule that does not
hold fails the task without a retry, and sends the same alert as any failure.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow.sdk import DAG, Asset, Param, task
from lakemark_names import DAG_PREFIX, TAG
from lakemark_tasks import ON_SPARK, TASKS, log_fact, work_on  # in plugins/, on Airflow's path

from include.jobs.runner import run_check
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.settings import Settings

log = logging.getLogger(__name__)


def build(pipeline: Pipeline, settings: Settings) -> DAG | None:
    checks = pipeline.quality.table
    if checks is None:
        return None
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__checks",
        description=f"Judges {pipeline.target.table} by the suite {checks.suite}.",
        doc_md=__doc__,
        schedule=checks.schedule,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        params={
            "version": Param(
                None,
                type=["null", "integer"],
                minimum=0,
                title="Version",
                description="The table's version; empty: the newest",
            )
        },
        default_args=TASKS,
        tags=[TAG, "quality"],
    ) as dag:

        @task(inlets=[Asset(pipeline.target.table)], doc_md="Safe to clear at any time.", **ON_SPARK)
        def check(params: dict) -> JsonObject:
            with work_on(pipeline.name):
                return run_check(settings, pipeline.name, params["version"], listen=log_fact, log=log.info)

        check()
    return dag
