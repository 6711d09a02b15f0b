"""Starts runs of DAGs for the demo, and waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from include.demo.airflow_api import AirflowApi
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonValue

RUN_SECONDS_MAX = 900.0

T = TypeVar("T")


def run(airflow: AirflowApi, dag_id: str, **form: JsonValue) -> str:
    """Starts a run, waits until it succeeds, and returns its id."""
    wait(f"Airflow shows {dag_id}", lambda: airflow.dag_exists(dag_id) or None, 120)
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id, **form)
    verify_good(run_id, wait(f"run {run_id} ends", lambda: run_ended(airflow, dag_id, run_id), RUN_SECONDS_MAX))
    return run_id


def run_ended(airflow: AirflowApi, dag_id: str, run_id: str) -> str | None:
    state = airflow.run_state(dag_id, run_id)
    return state if state in ("success", "failed") else None


def verify_good(run_id: str, state: str) -> None:
    if state != "success":
        raise failed(f"run {run_id}", "success", state, "see the run's task logs in Airflow's UI")


def wait(what: str, ready: Callable[[], T | None], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    while (found := ready()) is None:
        if time.monotonic() > deadline:
            raise failed(what, f"within {seconds:.0f} s", "not so", "see the logs under .lakemark/logs and Airflow's")
        time.sleep(0.3)
    return found


def failed(where: str, expected: str, found: str, action: str) -> TerminalError:
    return TerminalError(what="the demo cannot go on", where=where, expected=expected, found=found, action=action)
