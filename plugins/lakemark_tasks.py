"""What the tasks of Lakemark's DAGs share: how they fail and say so, how often they are tried again, what their log
tells of a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import lakemark_alerts  # these three beside this file, in a folder that Airflow puts on the path
import lakemark_metrics
from airflow.sdk import get_current_context, get_parsing_context
from airflow.sdk.exceptions import AirflowFailException
from lakemark_first_come import FIRST_COME
from lakemark_names import DAG_PREFIX, PROBLEM_KEY, SPARK_POOL
from structlog.contextvars import bind_contextvars

from include.jobs.report import told
from include.pipeline_file import Pipeline, load_pipelines
from include.protocol.errors import LakemarkError, TerminalError
from include.settings import Settings

log = logging.getLogger(__name__)
TASKS = {  # default arguments of every DAG
    "retries": 4,
    "retry_delay": timedelta(seconds=5),  # grows with every retry
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
    "on_failure_callback": lakemark_alerts.failed,  # once it is not tried again
}
# Of every task that runs on Spark: the pool bounds how many do at once, wherever they wait for it.
ON_SPARK = {"pool": SPARK_POOL, "weight_rule": FIRST_COME}
_NAMED = ("generation", "batch_id", "attempt_id")  # what a job's lines are about


def pipelines_to_parse(settings: Settings) -> list[Pipeline]:
    """The pipelines of all valid files; in a task's process, which needs its own DAG only, that one's."""
    dag_id = get_parsing_context().dag_id
    name = dag_id.removeprefix(DAG_PREFIX).partition("__")[0] if dag_id else "*"
    return load_pipelines(settings.pipelines, settings.environment, name)[0]


@contextmanager
def work_on(pipeline: str) -> Iterator[None]:
    """Around what a task does for a pipeline: every line of its log names the pipeline, and failures are classed."""
    bind_contextvars(pipeline=pipeline)
    with classed():
        yield


@contextmanager
def classed() -> Iterator[None]:
    """Around what a task does: Airflow retries what fails; a terminal error must not be retried, a person has to act.

    The text is the last that the task logs, and an XCom for the run's note (lakemark_run_notes.py).
    """
    try:
        yield
    except LakemarkError as error:
        get_current_context()["ti"].xcom_push(PROBLEM_KEY, str(error))
        if isinstance(error, TerminalError):
            raise AirflowFailException(str(error)) from None
        raise


def this_try() -> str:
    """For the ledger: that Airflow started an attempt, and where in its UI the try's log is."""
    ti = get_current_context()["ti"]
    mapped = f"/mapped/{ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    place = f"dags/{ti.dag_id}/runs/{quote(ti.run_id, safe='')}/tasks/{ti.task_id}{mapped}"
    return f"airflow {place}?try_number={ti.try_number}"


def asked_by(dag_run: Any) -> str:
    """For the ledger: which run asked, and so for whom."""
    return f"airflow {dag_run.run_id}"


def telling(pipeline: str) -> Callable[[dict[str, Any]], None]:
    """Takes the lines of a pipeline's job: for the task's log, whose lines name the batch and the attempt from then on,
    and as metrics."""

    def tell(fact: dict[str, Any]) -> None:
        log_fact(fact)
        lakemark_metrics.of_job(pipeline, fact)

    return tell


def log_fact(fact: dict[str, Any]) -> None:
    """A line of a job, for the log; later lines name the batch and the attempt, too."""
    bind_contextvars(**{name: fact[name] for name in _NAMED if name in fact})
    log.info("%s", told(fact))
