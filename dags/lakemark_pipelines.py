"""One DAG `lakemark__NAME` for every valid file in include/pipelines/: plan, merge, settle.

Broken files are reported by lakemark_pipeline_errors.py: Airflow keeps import errors per DAG file and stops scheduling
all DAGs of a file that has one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from airflow.sdk import DAG, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from include.airflow_names import DAG_PREFIX, PROBLEM_KEY
from include.explain import markdown
from include.pipeline_file import Pipeline, load_pipelines
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.planning import Idle
from include.runner import run_job, told
from include.settings import Settings
from include.steps import Steps

log = logging.getLogger(__name__)

RETRIES = 4
RETRY_DELAY = timedelta(seconds=5)  # grows with every retry
MAX_RETRY_DELAY = timedelta(minutes=5)


@contextmanager
def classed_failures() -> Iterator[None]:
    """Airflow retries what fails; a terminal error must not be retried, a person has to act.

    The text is the last that the task logs, and an XCom for the run's note (plugins/lakemark_run_notes.py).
    """
    try:
        yield
    except LakemarkError as error:
        get_current_context()["ti"].xcom_push(PROBLEM_KEY, str(error))
        if isinstance(error, TerminalError):
            raise AirflowFailException(str(error)) from None
        raise


def tell(fact: dict) -> None:
    log.info("%s", told(fact))


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    schedule = "@continuous" if pipeline.schedule == "continuous" else pipeline.schedule
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}",
        description=pipeline.description,
        doc_md=markdown(pipeline),
        schedule=schedule,
        start_date=datetime(2024, 1, 1),
        catchup=False,  # a run takes what Kafka holds now, whatever its date
        max_active_runs=1,
        default_args={
            "retries": RETRIES,
            "retry_delay": RETRY_DELAY,
            "retry_exponential_backoff": True,
            "max_retry_delay": MAX_RETRY_DELAY,
        },
        tags=["lakemark"],
    ) as dag:

        @task.short_circuit(doc_md="Records the next batch's offset ranges in the ledger, or finds nothing new.")
        def plan() -> dict[str, int] | None:
            with classed_failures():
                planned = Steps(settings, pipeline).plan()
            if isinstance(planned, Idle):
                log.info("nothing new in Kafka: there is no batch to run")
                return None
            ranges = ", ".join(map(str, planned.batch.ranges))
            log.info("%s: %s", planned.batch, ranges)
            return planned.batch.key._asdict()

        @task(doc_md="Runs the Spark job for the batch. Safe to clear at any time.")
        def merge(planned: dict[str, int]) -> dict:
            with classed_failures():
                results = run_job(settings, pipeline.name, BatchKey(**planned), "airflow", tell, log.info)
            return results[0]

        @task(doc_md="Records in the ledger what the table's log says has landed.")
        def settle(planned: dict[str, int], merged: dict) -> dict:
            with classed_failures():
                committed = Steps(settings, pipeline).settle(BatchKey(**planned))
            log.info("batch %s is version %s of the table", committed.batch_id, committed.table_version)
            return {
                "generation": committed.generation,
                "batch_id": committed.batch_id,
                "table_version": committed.table_version,
                "counts": committed.counts and committed.counts.to_json(),
                "outcome": merged["outcome"],
            }

        planned = plan()
        settle(planned, merge(planned))
    return dag


def build_all(settings: Settings) -> dict[str, DAG]:
    """The DAGs of all valid files, by DAG id."""
    pipelines, _ = load_pipelines(settings.pipelines, settings.environment)
    return {dag.dag_id: dag for dag in (build(pipeline, settings) for pipeline in pipelines)}


globals().update(build_all(Settings.from_environment()))
