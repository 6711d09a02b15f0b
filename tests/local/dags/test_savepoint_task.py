"""One line in a DAG of a user's own takes a savepoint. Real Delta files, no Spark, no scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag  # noqa: F401, puts plugins on the path
from lakemark_savepoint_task import SavepointTask

from include.savepoints.checking import seen
from tests.support.hand_made import known_to_commands
from tests.support.six_batches import made


@pytest.mark.parametrize("savepoint", ["before-migration", None])
def test_it_takes_one_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, savepoint: str | None) -> None:
    coordinator = known_to_commands(made(tmp_path), tmp_path, monkeypatch)
    monkeypatch.setattr("lakemark_tasks.verify_lives", lambda *_: None)  # this lake was made by hand
    context = {"dag_run": SimpleNamespace(dag_id="mine", run_id="scheduled__2026-11-27T00:00:00+00:00")}
    task = SavepointTask(task_id="save", pipeline="p", savepoint=savepoint)
    names = [task.execute(context) for _ in range(2)]  # type: ignore[arg-type]
    assert names == [savepoint or "scheduled__2026-11-27T00-00-00-00-00"] * 2
    [one] = seen(coordinator.settings, coordinator.pipeline)
    assert (one.on_shelf.name, one.lost) == (names[0], None)
