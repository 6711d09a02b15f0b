"""Writes into a failed DAG run's note why the pipeline has stopped and what to do. People see the note first in the UI.

A task cannot write its run's note (it has no access to Airflow's database). So it leaves the text as an XCom, and this
listener, which runs in the scheduler, copies the text when the run has failed.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from lakemark_names import DAG_PREFIX, PROBLEM_KEY
from sqlalchemy import select
from sqlalchemy.orm import object_session

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)
NOTE_MAX = 1000  # characters that Airflow keeps


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    session = object_session(dag_run)
    if not dag_run.dag_id.startswith(DAG_PREFIX) or session is None:
        return
    try:
        of_run = (XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id)
        newest = select(XComModel).where(*of_run, XComModel.key == PROBLEM_KEY).order_by(XComModel.timestamp.desc())
        problem = session.scalars(newest.limit(1)).first()
        if problem is not None:
            dag_run.note = str(XComModel.deserialize_value(problem))[:NOTE_MAX]
    except Exception:  # a note only helps people: it must not make the scheduler fail
        log.exception("no note for %s %s", dag_run.dag_id, dag_run.run_id)


class LakemarkRunNotes(AirflowPlugin):
    name = "lakemark_run_notes"
    listeners = [sys.modules[__name__]]  # noqa: RUF012, Airflow's own form
