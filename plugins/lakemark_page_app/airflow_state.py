"""Reads the state of pipelines' DAGs from Airflow's database."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from airflow.models.asset import AssetModel, DagScheduleAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from include.monitoring.health import Scheduler


def schedulers(session: Session, dag_ids: Sequence[str]) -> dict[str, Scheduler]:
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
    failed = {run.dag_id: (run.run_id, run.end_date, run.note) for run in newest if run.state == DagRunState.FAILED}
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
