"""What the tasks of Lakemark's DAGs share: how they fail, how often they are retried, and how they log a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import quote

import lakemark_alerts  # in plugins/, which Airflow puts on the path
import lakemark_connections  # noqa: F401, makes them known
import lakemark_metrics
from airflow.sdk import Asset, get_current_context
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.types import DagRunProtocol
from lakemark_first_come import FIRST_COME
from lakemark_names import ANSWER_KEY, OWN_RUN, PROBLEM_KEY, SPARK_POOL
from structlog.contextvars import bind_contextvars, bound_contextvars

from include.jobs.report import told
from include.lake.lakes import verify_lives
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

log = logging.getLogger(__name__)
TASKS = {  # default arguments of every DAG
    "retries": 4,
    "retry_delay": timedelta(seconds=5),  # grows with every retry
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
    "on_failure_callback": lakemark_alerts.failed,  # when the task is not tried again
}
# Arguments of every task that runs on Spark: the pool limits how many run at once, on workers or deferred.
ON_SPARK = {"pool": SPARK_POOL, "weight_rule": FIRST_COME}
_NAMED = ("generation", "batch_id", "attempt_id")  # what a job's lines are about


@contextmanager
def work_on(pipeline: str) -> Iterator[None]:
    """For the work of a task on a pipeline: every log line names the pipeline, which lives in the lake, and errors are
    handled by `classed`."""
    bind_contextvars(pipeline=pipeline)
    with classed():
        settings = Settings.from_environment()
        verify_lives(settings.lake, settings.home)
        yield


@contextmanager
def classed() -> Iterator[None]:
    """For the work of a task: Airflow retries it if it fails, except after a terminal error: then a person has to act.

    The error's text is the last line in the task's log, and an XCom for the run's note (lakemark_run_notes.py). Its
    evidence, which may hold values of records, is in the log only.
    """
    try:
        yield
    except LakemarkError as error:
        if error.evidence:
            log.error("evidence: %s", error.evidence)
        get_current_context()["ti"].xcom_push(PROBLEM_KEY, str(error))
        if isinstance(error, TerminalError):
            raise AirflowFailException(str(error)) from None
        raise


def rows_changed(pipeline: Pipeline) -> list[Asset]:
    """What a task sends that changes rows of the target beside the pipeline's runs: deliveries to sinks wait for it."""
    name = pipeline.name
    return [Asset(f"{name}: rows have changed", f"lakemark-changed://{name}")] if pipeline.sinks else []


def own_run(pipeline: str) -> Asset:
    """What starts a run of the own DAG of a pipeline that is in a group."""
    return Asset(f"{pipeline}: a run of its own", f"{OWN_RUN}{pipeline}")


def this_try() -> str:
    """For the ledger: says that Airflow started the attempt, and where the try's log is in its UI."""
    return f"{this_task()}?try_number={get_current_context()['ti'].try_number}"


def this_task() -> str:
    """What `this_try` says of every try of this task."""
    ti = get_current_context()["ti"]
    mapped = f"/mapped/{ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    return f"airflow dags/{ti.dag_id}/runs/{quote(ti.run_id, safe='')}/tasks/{ti.task_id}{mapped}"


def answer(text: str) -> None:
    """Says something to the person who started the run: it becomes the run's note (lakemark_run_notes.py)."""
    log.info("%s", text)
    get_current_context()["ti"].xcom_push(ANSWER_KEY, text)


def asked_by(dag_run: DagRunProtocol) -> str:
    """For the ledger: the run that made the request, and so the person behind it."""
    return f"airflow {dag_run.run_id}"


def telling(pipeline: str) -> Callable[[JsonObject], None]:
    """Takes the lines of a pipeline's job: it logs them and sends their metrics."""

    def tell(fact: JsonObject) -> None:
        log_fact(fact)
        lakemark_metrics.of_job(pipeline, fact)

    return tell


def log_fact(fact: JsonObject) -> None:
    """Logs a line of a job. All later log lines name the batch and the attempt, too."""
    bind_contextvars(**{name: fact[name] for name in _NAMED if name in fact})
    log.info("%s", told(fact))


def log_fact_of(pipeline: str, fact: JsonObject) -> None:
    """Logs a line of a job, where lines of several pipelines' jobs come by turns."""
    with bound_contextvars(pipeline=pipeline, **{name: fact[name] for name in _NAMED if name in fact}):
        log.info("%s: %s", pipeline, told(fact))
