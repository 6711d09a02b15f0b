"""One DAG `lakemark_maintenance` for all pipelines: every night it keeps their tables quick to read and small on disk.

One mapped task per pipeline, one at a time, beside the live batches. Each task reports what it has gained. The pipeline
file says under `maintenance` when to do what.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from airflow.sdk import DAG, get_current_context, task
from lakemark_names import MAINTENANCE_DAG, TAG
from lakemark_tasks import ON_SPARK, TASKS, this_try, work_on  # in plugins/, which Airflow puts on the path

from include.jobs.report import maintenance_lines, told
from include.jobs.runner import run_maintenance
from include.pipeline_file import load_pipelines
from include.protocol.json_data import JsonObject
from include.settings import Settings

log = logging.getLogger(__name__)


def build(settings: Settings) -> DAG:
    with DAG(
        dag_id=MAINTENANCE_DAG,
        description="OPTIMIZE, VACUUM, log clean-up, tombstones, ledgers: for every pipeline, sized by rules.",
        doc_md=__doc__,
        schedule=settings.maintenance_schedule,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        default_args=TASKS,
        tags=[TAG],
    ) as dag:

        @task
        def pipelines() -> list[str]:
            found, _ = load_pipelines(settings.pipelines, settings.environment)
            return [half.name for pipeline in found for half in pipeline.halves]

        @task(
            max_active_tis_per_dag=1,  # the other slots are for batches
            map_index_template="{{ pipeline }}",
            doc_md="Safe to clear at any time.",
            **ON_SPARK,
        )
        def maintain(name: str) -> JsonObject:
            get_current_context()["pipeline"] = name
            with work_on(name):
                return run_maintenance(
                    settings, name, this_try(), listen=lambda fact: log.info("%s", told(fact)), log=log.info
                )

        @task(trigger_rule="all_done", doc_md="Reports what the whole run has gained.")
        def report(found: Iterable[JsonObject]) -> None:
            for won in found:
                for line in maintenance_lines(won):
                    log.info("%s", line)

        report(maintain.expand(name=pipelines()))
    return dag


dag = build(Settings.from_environment())
