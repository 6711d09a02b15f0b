"""Writes into a DAG run's note why the pipeline has stopped and what to do, or what the run answers to the person who
started it. People see the note first in the UI.

A task cannot write its run's note (it has no access to Airflow's database). So it leaves the text as an XCom, and this
listener, which runs in the scheduler, copies the text when the run has ended. When the run begins again, the note of
what is over goes. A note that a person wrote stays as it is.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from lakemark_names import ANSWER_KEY, DAG_PREFIX, GROUP_PREFIX, PROBLEM_KEY
from sqlalchemy import select
from sqlalchemy.orm import object_session

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)
NOTE_MAX = 1000  # characters that Airflow keeps


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    with _only_ours(dag_run) as is_ours:
        if is_ours and dag_run.dag_run_note is not None:
            dag_run.note = None


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    _note(dag_run, PROBLEM_KEY)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    _note(dag_run, ANSWER_KEY)


def _note(dag_run: DagRun, key: str) -> None:
    """Makes the newest text that a task has left under a key the run's note."""
    with _only_ours(dag_run) as is_ours:
        session = object_session(dag_run)
        if not is_ours or session is None:
            return
        of_run = (XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id)
        newest = select(XComModel).where(*of_run, XComModel.key == key).order_by(XComModel.timestamp.desc())
        text = session.scalars(newest.limit(1)).first()
        if text is not None:
            dag_run.note = str(XComModel.deserialize_value(text))[:NOTE_MAX]


@contextmanager
def _only_ours(dag_run: DagRun) -> Iterator[bool]:
    """Whether the run is one of Lakemark's, without a note of a person's. An error is only logged: a note helps people,
    and must not make the scheduler fail."""
    try:
        note = dag_run.dag_run_note
        yield dag_run.dag_id.startswith((DAG_PREFIX, GROUP_PREFIX)) and (note is None or note.user_id is None)
    except Exception:
        log.exception("no note for %s %s", dag_run.dag_id, dag_run.run_id)


class LakemarkRunNotes(AirflowPlugin):
    name = "lakemark_run_notes"
    listeners = [sys.modules[__name__]]  # noqa: RUF012, Airflow's own form
