"""Builds the DAGs of all pipelines, each by itself: an exception in a DAG file would take away the DAGs of them all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime

from airflow.sdk import DAG, get_parsing_context, task
from airflow.sdk.exceptions import AirflowFailException
from lakemark_names import DAG_PREFIX, TAG  # in plugins/, which Airflow puts on the path

from include.pipeline_file import Pipeline, load_pipelines
from include.settings import Settings

log = logging.getLogger(__name__)
Build = Callable[[Pipeline, Settings], DAG | list[DAG] | None]


def dags_of(settings: Settings, build: Build, suffix: str = "") -> dict[str, DAG]:
    """The DAGs of all valid files, by DAG id.

    Args:
        build: makes the DAG of one pipeline, or several; None if the pipeline has none.
        suffix: of the DAG ids, after the pipeline's name.
    """
    return {dag.dag_id: dag for dag in _built(settings, build, suffix)}


def _built(settings: Settings, build: Build, suffix: str) -> Iterator[DAG]:
    for pipeline in _pipelines_to_parse(settings):
        try:
            made = build(pipeline, settings)
        except Exception as error:  # whatever it is, the other pipelines must run on
            log.exception("the DAG of %s could not be built", pipeline.name)
            made = _stand_in(f"{DAG_PREFIX}{pipeline.name}{suffix}", f"{type(error).__name__}: {error}")
        yield from made if isinstance(made, list) else filter(None, [made])


def _pipelines_to_parse(settings: Settings) -> list[Pipeline]:
    """The pipelines of all valid files. A task's process needs only its own DAG, so there it is only that pipeline."""
    dag_id = get_parsing_context().dag_id
    name = dag_id.removeprefix(DAG_PREFIX).partition("__")[0] if dag_id else "*"
    return load_pipelines(settings.pipelines, settings.environment, name)[0]


def _stand_in(dag_id: str, problem: str) -> DAG:
    """A DAG that does nothing but say why the real one is not there."""
    text = f"The DAG could not be built, which is a defect of Lakemark: please report it. {problem}"
    with DAG(
        dag_id=dag_id,
        description="This DAG could not be built.",
        doc_md=f"{text}\n",  # Airflow takes a text that ends in `.md` for the name of a file
        schedule=None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        tags=[TAG],
    ) as dag:

        @task
        def say_why() -> None:
            raise AirflowFailException(text)

        say_why()
    return dag
