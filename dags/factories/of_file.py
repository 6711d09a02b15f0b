"""Builds all DAGs of a pipeline file, each by itself: an exception would take away all DAGs of a DAG file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context, task
from airflow.sdk.exceptions import AirflowFailException
from lakemark_names import DAG_PREFIX, GROUP_PREFIX, TAG  # in plugins/, which Airflow puts on the path

from dags.factories import audits, backfills, checks, deliveries, groups, pipelines, resets, savepoints
from include.pipeline_file import Pipeline, load_pipelines
from include.pipeline_file.loading import groups_in, load_apart
from include.settings import Settings

log = logging.getLogger(__name__)
Build = Callable[[Pipeline, Settings], DAG | list[DAG] | None]
KINDS: dict[str, Build] = {  # by the suffix of the DAG id, after the pipeline's name
    "": pipelines.build,
    "__backfill": backfills.build,
    "__reset": resets.build,
    "__savepoint": savepoints.build,
    "__rehearsal": savepoints.build_rehearsal,
    "__checks": checks.build,
    "__audit": audits.build,
    "__deliver": deliveries.build,
}


def dags_of_file(name: str) -> dict[str, DAG]:
    """The DAGs of one file in the folder of pipelines, by DAG id.

    Raises:
        PipelineFileError: the file is not valid. Airflow shows it as an import error, and schedules none of its DAGs.
    """
    settings = Settings.from_environment()
    pipeline = load_apart(Path(settings.pipelines, name), settings.environment)
    return {dag.dag_id: dag for dag in _dags_of(pipeline, settings)}


def dags_of_all() -> dict[str, DAG]:
    """The DAGs of all valid files, by DAG id. A task's process needs only its own DAG, so there it is only those of
    that pipeline."""
    settings, dag_id = Settings.from_environment(), get_parsing_context().dag_id
    if dag_id is not None and dag_id.startswith(GROUP_PREFIX):
        return dags_of_group(dag_id.removeprefix(GROUP_PREFIX))
    name = dag_id.removeprefix(DAG_PREFIX).partition("__")[0] if dag_id else "*"
    valid, _ = load_pipelines(settings.pipelines, settings.environment, name)
    made = [dag for pipeline in valid for dag in _dags_of(pipeline, settings)]
    if not dag_id:
        made += [groups.build(group, members) for group, members in groups_in(settings.pipelines).items()]
    return {dag.dag_id: dag for dag in made}


def dags_of_group(name: str) -> dict[str, DAG]:
    """The DAG of one group of pipelines, by its id."""
    settings = Settings.from_environment()
    dag = groups.build(name, groups_in(settings.pipelines).get(name, []))
    return {dag.dag_id: dag}


def _dags_of(pipeline: Pipeline, settings: Settings) -> Iterator[DAG]:
    for suffix, build in KINDS.items():
        try:
            made = build(pipeline, settings)
        except Exception as error:  # whatever it is, the other DAGs must run on
            dag_id = f"{DAG_PREFIX}{pipeline.name}{suffix}"
            log.exception("%s could not be built", dag_id)
            made = _stand_in(dag_id, f"{type(error).__name__}: {error}")
        yield from made if isinstance(made, list) else filter(None, [made])


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
