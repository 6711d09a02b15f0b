"""Has Airflow parse the DAG file of a DAG that was paused or unpaused, in whatever bundle it is.

A DAG that waits for data has a trigger while it is not paused, and Airflow starts and ends triggers when it parses.
Where a file is parsed seldom (plugins/lakemark_bundle.py), a DAG that a person unpauses would wait for that.
"""

from __future__ import annotations

from typing import NamedTuple

from airflow.models.asset import AssetModel, DagScheduleAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.utils.session import create_session
from lakemark_names import OWN_RUN  # in plugins/, which Airflow puts on the path
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError


class Shown(NamedTuple):
    """A DAG that runs when an asset says so. Only such a one may have a trigger."""

    bundle: str
    file: str  # below the bundle's path
    dag_id: str


class Pauses:
    """What was paused at the last call of `ask_to_parse`."""

    def __init__(self) -> None:
        self._before: dict[Shown, bool] | None = None  # none yet: Airflow has just started, and parses every file

    def have_changed(self) -> bool:
        return self._before != _paused_now()

    def ask_to_parse(self) -> None:
        """Has the files parsed whose DAGs were paused or unpaused since the last call. A new one counts as one that was
        paused."""
        now = _paused_now()
        if self._before is not None:
            changed = {(dag.bundle, dag.file) for dag, paused in now.items() if paused != self._before.get(dag, True)}
            for bundle, file in sorted(changed):
                _ask_to_parse(bundle, file)
        self._before = now


def _paused_now() -> dict[Shown, bool]:
    columns = (DagModel.bundle_name, DagModel.relative_fileloc, DagModel.dag_id, DagModel.is_paused)
    with create_session() as session:
        waits = select(DagScheduleAssetReference.dag_id).join(AssetModel).where(~AssetModel.uri.startswith(OWN_RUN))
        rows = session.execute(select(*columns).where(DagModel.dag_id.in_(waits), ~DagModel.is_stale))
        return {Shown(bundle, file, dag_id): is_paused for bundle, file, dag_id, is_paused in rows}


def _ask_to_parse(bundle: str, file: str) -> None:
    try:
        with create_session() as session:
            session.add(DagPriorityParsingRequest(bundle, file))
    except IntegrityError:  # somebody has asked already
        return
