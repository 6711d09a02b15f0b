"""The DAG `lakemark_data_docs`: publishes verdicts of quality suites as Great Expectations' Data Docs, every hour.

`LAKEMARK_DATA_DOCS` says where to: a folder, or `s3://BUCKET/PREFIX` with boto3's own settings. Without it there is no
such DAG. It needs no Spark, and is safe to clear at any time.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow.sdk import DAG, task
from lakemark_names import DATA_DOCS_DAG, TAG
from lakemark_tasks import TASKS, classed  # in plugins/, which Airflow puts on the path

from include.pipeline_file import load_pipelines
from include.quality.publish import NEWEST, publish
from include.settings import Settings

log = logging.getLogger(__name__)


def build(settings: Settings, to: str) -> DAG:
    with DAG(
        dag_id=DATA_DOCS_DAG,
        description=f"Data Docs of all pipelines, to {to}.",
        doc_md=__doc__,
        schedule=settings.data_docs_schedule,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        default_args=TASKS,
        tags=[TAG],
    ) as dag:

        @task(task_id="publish")
        def publish_all() -> str:
            found, _ = load_pipelines(settings.pipelines, settings.environment)
            with classed():
                return publish(settings, found, to, newest=NEWEST, say=log.info)

        publish_all()
    return dag


_settings = Settings.from_environment()
if _settings.data_docs is not None:
    dag = build(_settings, _settings.data_docs)
