"""Reads the state of pipelines' DAGs from Airflow's database."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from airflow.models.asset import AssetModel, DagScheduleAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from lakemark_names import DAG_PREFIX, GROUP_PREFIX  # in plugins/, which Airflow puts on the path
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from include.monitoring.health import Scheduler
from include.pipeline_file import Pipeline


def schedulers(session: Session, pipelines: Iterable[Pipeline]) -> dict[str, Scheduler]:
    """What Airflow says of each pipeline, by its name. See `Scheduler.in_group`."""
    all_of_them = list(pipelines)
    groups = {f"{GROUP_PREFIX}{p.group}" for p in all_of_them if p.group is not None}
    states = _of_dags(session, [*(DAG_PREFIX + p.name for p in all_of_them), *groups])

    def of(pipeline: Pipeline) -> Scheduler:
        own = states.get(DAG_PREFIX + pipeline.name, Scheduler())
        return own.in_group(states.get(f"{GROUP_PREFIX}{pipeline.group}", Scheduler()))

    return {pipeline.name: of(pipeline) for pipeline in all_of_them}


def _of_dags(session: Session, dag_ids: Sequence[str]) -> dict[str, Scheduler]:
    """The state of each DAG, by DAG id. It takes three queries for any number of DAGs."""
    of_all = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids))
    paused: dict[str, bool] = dict(session.execute(of_all).tuples().all())
    active = select(DagRun.dag_id).where(
        DagRun.dag_id.in_(dag_ids), DagRun.state.in_([DagRunState.QUEUED, DagRunState.RUNNING])
    )
    running = set(session.scalars(active.distinct()))
    ended = [DagRunState.SUCCESS, DagRunState.FAILED]
    of_dags = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dag_ids), DagRun.state.in_(ended))
    newest: Iterable[DagRun] = session.scalars(select(DagRun).where(DagRun.id.in_(of_dags.group_by(DagRun.dag_id))))
    failed = {
        run.dag_id: (run.run_id, run.end_date, run.note, run.dag_id)
        for run in newest
        if run.state == DagRunState.FAILED
    }
    return {
        dag_id: Scheduler(is_paused, dag_id in running, *failed.get(dag_id, ())) for dag_id, is_paused in paused.items()
    }


def consumers(session: Session, uris: Sequence[str], readable: Container[str]) -> dict[str, list[str]]:
    """The DAGs whose schedule waits for tables, by the table. Args: readable: the ids of DAGs that may be named."""
    waiting = (
        select(AssetModel.uri, DagScheduleAssetReference.dag_id)
        .join(DagScheduleAssetReference, DagScheduleAssetReference.asset_id == AssetModel.id)
        .where(AssetModel.uri.in_(uris))
    )
    found: dict[str, list[str]] = {}
    for uri, dag_id in session.execute(waiting):
        if dag_id in readable:
            found.setdefault(uri, []).append(dag_id)
    return found
