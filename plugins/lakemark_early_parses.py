"""Has Airflow parse a DAG file early, in whatever bundle it is, where that mends what Airflow knows of the DAG.

- A DAG that waits for data has a trigger while it is not paused, and Airflow starts and ends triggers when it parses.
- A DAG that has as many runs as it may have gets no further one, and Airflow notes that. If a person ends one of them,
  the note stays until Airflow parses.

Where a file is parsed seldom (plugins/lakemark_bundle.py), such a DAG would wait for that.
"""

from __future__ import annotations

from typing import NamedTuple

from airflow.models.asset import AssetModel, DagScheduleAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from lakemark_names import OWN_RUN  # in plugins/, which Airflow puts on the path
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError


class Shown(NamedTuple):
    """A DAG that runs when an asset says so. Only such a one may have a trigger."""

    bundle: str
    file: str  # below the bundle's path
    dag_id: str


class EarlyParses:
    """What was paused at the last call of `ask`."""

    def __init__(self) -> None:
        self._before: dict[Shown, bool] | None = None  # none yet: Airflow has just started, and parses every file

    def are_due(self) -> bool:
        return self._before != _paused_now() or bool(_held_up_now())

    def ask(self) -> None:
        """Has the files parsed whose DAGs were paused or unpaused since the last call, or are held up. A new one counts
        as one that was paused."""
        now = _paused_now()
        if self._before is not None:
            changed = {(dag.bundle, dag.file) for dag, paused in now.items() if paused != self._before.get(dag, True)}
            for bundle, file in sorted(changed | _held_up_now()):
                _ask_to_parse(bundle, file)
        self._before = now


def _paused_now() -> dict[Shown, bool]:
    columns = (DagModel.bundle_name, DagModel.relative_fileloc, DagModel.dag_id, DagModel.is_paused)
    with create_session() as session:
        waits = select(DagScheduleAssetReference.dag_id).join(AssetModel).where(~AssetModel.uri.startswith(OWN_RUN))
        rows = session.execute(select(*columns).where(DagModel.dag_id.in_(waits), ~DagModel.is_stale))
        return {Shown(bundle, file, dag_id): is_paused for bundle, file, dag_id, is_paused in rows}


def _held_up_now() -> set[tuple[str, str]]:
    """The files (bundle, and path below its own) of DAGs that have fewer runs than they may, and are noted as full."""
    counts = (
        DagRun.state.in_([DagRunState.QUEUED, DagRunState.RUNNING]),
        DagRun.run_type != DagRunType.BACKFILL_JOB,
    )
    active = select(func.count()).where(DagRun.dag_id == DagModel.dag_id, *counts).scalar_subquery()
    is_held_up = (DagModel.exceeds_max_non_backfill, ~DagModel.is_stale, active < DagModel.max_active_runs)
    with create_session() as session:
        rows = session.execute(select(DagModel.bundle_name, DagModel.relative_fileloc).where(*is_held_up))
        return {(bundle, file) for bundle, file in rows}


def _ask_to_parse(bundle: str, file: str) -> None:
    try:
        with create_session() as session:
            session.add(DagPriorityParsingRequest(bundle, file))
    except IntegrityError:  # somebody has asked already
        return
