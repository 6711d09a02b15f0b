"""The DAG files, as Airflow's own DAG bag loads them."""

from __future__ import annotations

import importlib
import json
import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.encoders import encode_trigger
from airflow.serialization.serialized_objects import DagSerialization
from lakemark_first_come import FirstComeFirstServed
from lakemark_warm_executor import USED_BY_TASKS

import dags.factories.pipelines
from include.control.sink_form import deliver_of
from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError, TerminalError
from include.settings import PROJECT_ROOT

OF_ALL = {"lakemark_example_downstream", "lakemark_maintenance", "lakemark_watch"}
KINDS = ("", "__audit", "__backfill", "__reset", "__savepoint")  # of a pipeline's DAGs, by the end of the id
PARTS = {"what": "w", "where": "x", "expected": "y", "found": "z", "action": "call Ada"}


def pipeline_file(folder: Path, name: str, **changes: object) -> None:
    data = {
        "name": name,
        "description": f"All about {name}.",
        "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [name], "schema": "id BIGINT"},
        "change": {"keys": ["id"]},
        "target": {"table": f"lake://silver/{name}"},
        **changes,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))


@pytest.fixture
def bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKEMARK_PIPELINES", str(tmp_path))

    def load() -> DagBag:
        return DagBag(PROJECT_ROOT / "dags")

    return load


def test_every_pipeline_file_is_a_dag(bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline_file(tmp_path, "orders", schedule="*/5 * * * *")
    pipeline_file(tmp_path, "payments", schedule="continuous")
    pipeline_file(
        tmp_path, "big", schedule={"on_data": {"records": 5000, "seconds": 60}}, checkpoints={"rehearse": "0 4 * * 0"}
    )
    pipeline_file(tmp_path, "after", schedule={"tables": ["lake://silver/orders"]})
    database = {"host": "db", "database": "d", "username": "u", "table": "t"}
    sinks = {"app": {"postgresql": database}, "out": {"kafka": {"topic": "out"}}}
    pipeline_file(tmp_path, "delivered", sinks=sinks)
    pipeline_file(tmp_path, "refunds", quality={"table": {"suite": "refunds_table", "schedule": "0 6 * * *"}})
    loaded = bag()
    assert loaded.import_errors == {}
    names = ("orders", "payments", "big", "after", "refunds", "delivered")
    assert set(loaded.dags) == {
        *OF_ALL,
        *(f"lakemark__{n}{kind}" for n in names for kind in KINDS),
        "lakemark__refunds__checks",
        "lakemark__big__rehearsal",
        *(f"lakemark__delivered__deliver__{sink}" for sink in sinks),  # none waits for another
    }
    dag = loaded.dags["lakemark__orders"]
    assert dag.max_active_runs == 1
    assert not dag.catchup
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == {
        "plan": {"merge", "settle"},
        "merge": {"settle"},
        "settle": set(),
    }
    assert all(t.retries == 4 and t.retry_delay == timedelta(seconds=5) for t in dag.tasks)
    assert "All about orders." in dag.doc_md
    assert "exactly once" in dag.doc_md
    schedules = {name: d.schedule for name, d in loaded.dags.items()}
    assert (schedules["lakemark__orders"], schedules["lakemark__refunds"]) == ("*/5 * * * *", None)
    [upstream] = schedules["lakemark__after"]
    assert upstream.uri == "lake://silver/orders"
    for name, thresholds in {"payments": (1, 0.0), "big": (5000, 60.0)}.items():
        [waiting] = schedules[f"lakemark__{name}"]
        [watcher] = waiting.watchers
        path, arguments = encode_trigger(watcher.trigger).values()
        assert path == "lakemark_on_data.OnData"
        assert (arguments["pipeline"], arguments["records"], arguments["seconds"]) == (name, *thresholds)
    waits_for = schedules["lakemark__delivered__deliver__app"].objects  # no run of the pipeline waits for it
    assert [asset.uri for asset in waits_for] == ["lake://silver/delivered", "lakemark-changed://delivered/"]
    for dag_id, task_id in {"backfill": "finish", "savepoint": "act"}.items():
        assert loaded.dags[f"lakemark__delivered__{dag_id}"].get_task(task_id).outlets == [waits_for[1]]
    merge = dag.get_task("merge")
    assert merge.pool == "lakemark_spark"
    weights = []
    for now in (1_800_000_000, 1_800_000_001, 2_500_000_000):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        weights.append(FirstComeFirstServed().get_weight(None))
    assert weights == sorted(weights, reverse=True)  # who came first goes first
    assert all(0 < weight < 2**31 for weight in weights)
    monkeypatch.undo()
    for dag_id, task_id in {"lakemark__orders": "merge", "lakemark__orders__backfill": "chunk"}.items():
        as_stored = DagSerialization.to_dict(loaded.dags[dag_id])
        assert "object at 0x" not in json.dumps(as_stored)  # that would be another version at every look
        stored = DagSerialization.from_dict(as_stored).get_task(task_id)
        assert type(stored.weight_rule).__name__ == "FirstComeFirstServed"
    [alias] = dag.get_task("settle").outlets
    assert alias.name == "orders batches"


def test_with_merge_every_a_landing_comes_first_and_may_have_nothing_to_do(bag, tmp_path: Path) -> None:
    pipeline_file(tmp_path, "orders", archive="lake://bronze/orders", merge_every=5)
    loaded = bag()
    assert loaded.import_errors == {}
    dag = loaded.dags["lakemark__orders"]
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == {
        "plan_landing": {"land", "settle_landing"},  # and not `plan`, which would be skipped with these
        "land": {"settle_landing"},
        "settle_landing": {"plan"},
        "plan": {"merge", "settle"},
        "merge": {"settle"},
        "settle": set(),
    }
    assert dag.get_task("land").pipeline == "orders__landing"
    assert dag.get_task("plan").trigger_rule == "none_failed"


def test_a_groups_run_and_its_members_own_runs_wait_for_no_slot_of_the_other(bag, tmp_path: Path) -> None:
    """A large member goes on in a run of its own: a group's run that held the last slot would then do nothing."""
    for name in ("orders", "payments"):
        pipeline_file(tmp_path, name, group="shop", schedule={"on_data": {"records": 1, "seconds": 1}})
    loaded = bag()
    assert loaded.import_errors == {}
    drain, merge = (
        loaded.dags["lakemark_group__shop"].get_task("drain"),
        loaded.dags["lakemark__orders"].get_task("merge"),
    )
    assert (drain.pool, merge.pool) == ("lakemark_groups", "lakemark_spark")


def test_a_tasks_process_builds_its_own_dag_only(bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline_file(tmp_path, "orders")
    pipeline_file(tmp_path, "orders_eu")
    for dag_id in ("lakemark__orders", "lakemark__orders__backfill"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
        loaded = set(bag().dags)
        assert loaded - OF_ALL == {f"lakemark__orders{kind}" for kind in KINDS}


def test_broken_files_are_one_import_error_and_harm_no_other(bag, tmp_path: Path) -> None:
    pipeline_file(tmp_path, "good")
    pipeline_file(tmp_path, "bad", schedule="now and then")
    pipeline_file(tmp_path, "worse", change={"keys": ["nope"]})
    loaded = bag()
    assert set(loaded.dags) == {
        *OF_ALL,
        *(f"lakemark__good{kind}" for kind in KINDS),
    }
    [(file, text)] = loaded.import_errors.items()
    assert Path(file).name == "lakemark_pipeline_errors.py"
    for told in (
        f"{tmp_path}/bad.yaml: schedule: expected a cron expression",
        "now and then",
        f"{tmp_path}/worse.yaml: change.keys",
        "nope",
    ):
        assert told in text


def test_a_dag_that_cannot_be_built_takes_no_other_with_it(
    bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline_file(tmp_path, "good")
    pipeline_file(tmp_path, "odd")
    whole = dags.factories.pipelines.markdown

    def broken(pipeline: Pipeline) -> str:
        if pipeline.name == "odd":
            raise ValueError("a defect")
        return whole(pipeline)

    monkeypatch.setattr(dags.factories.pipelines, "markdown", broken)
    loaded = bag()
    assert loaded.import_errors == {}
    assert loaded.dags["lakemark__good"].has_task("merge")
    odd = loaded.dags["lakemark__odd"]
    assert [task.task_id for task in odd.tasks] == ["say_why"]
    assert "ValueError: a defect" in (odd.doc_md or "")


def test_a_broken_file_of_alerts_is_an_import_error(bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline_file(tmp_path, "good")
    alerts = tmp_path / "alerts" / "alerts.yml"
    alerts.parent.mkdir()
    alerts.write_text("- klass: a.B\n")
    monkeypatch.setenv("LAKEMARK_ALERTS", str(alerts))
    loaded = bag()
    assert "lakemark__good" in loaded.dags
    [text] = loaded.import_errors.values()
    assert "so no alert is sent" in text


def test_terminal_errors_are_not_retried_and_others_are(bag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lakemark_tasks

    pushed: list[tuple[str, str]] = []

    class Task:
        """Stands in for a running task instance, of which there is none outside Airflow."""

        def xcom_push(self, key: str, value: str) -> None:
            pushed.append((key, value))

    monkeypatch.setattr(lakemark_tasks, "get_current_context", lambda: {"ti": Task()})
    with pytest.raises(AirflowFailException, match="call Ada"), lakemark_tasks.work_on("orders"):
        raise TerminalError(**PARTS)
    with pytest.raises(RetryableError), lakemark_tasks.work_on("orders"):
        raise RetryableError(**PARTS)
    assert [key for key, text in pushed if "call Ada" in text] == ["lakemark_problem"] * 2


def test_the_backfill_forms_fields_may_stay_empty(bag, tmp_path: Path) -> None:
    """Airflow's form does not let a person go on while a field that cannot be null is empty."""
    pipeline_file(tmp_path, "orders")
    params = bag().dags["lakemark__orders__backfill"].params
    filled = {name for name, value in params.dump().items() if value is not None}
    assert filled == {"what", "source", "only_preview"}
    for name in params.keys() - filled:
        assert "null" in params.get_param(name).schema["type"], name


def test_the_reset_form_takes_any_table_by_its_name(bag, tmp_path: Path) -> None:
    pipeline_file(tmp_path, "orders")
    form = bag().dags["lakemark__orders__reset"].params
    assert (form["accept"], form.get_param("accept").schema["items"]["enum"]) == ([], ["quarantine", "target"])


def test_forms_ask_what_sinks_get_where_there_are_sinks(bag, tmp_path: Path) -> None:
    pipeline_file(tmp_path, "alone")
    pipeline_file(tmp_path, "orders", sinks={"out": {"kafka": {"topic": "out"}}})
    dags = bag().dags
    for kind in ("backfill", "reset", "savepoint"):
        assert "sinks" not in dags[f"lakemark__alone__{kind}"].params
        form = dags[f"lakemark__orders__{kind}"].params
        assert deliver_of({}) is deliver_of(form) is None
        choices = form.get_param("sinks").schema["enum"]
        assert [deliver_of({"sinks": choice}) for choice in choices] == [None, "skip", "refuse"]


def test_pipelines_whose_tables_are_not_apart_are_an_import_error_and_harm_no_other(bag, tmp_path: Path) -> None:
    pipeline_file(tmp_path, "good")
    pipeline_file(tmp_path, "inner", target={"table": "lake://silver/outer/inner"})
    pipeline_file(tmp_path, "outer")
    loaded = bag()
    assert set(loaded.dags) == {
        *OF_ALL,
        *(f"lakemark__good{kind}" for kind in KINDS),
    }
    [text] = loaded.import_errors.values()
    assert f"{tmp_path}/inner.yaml: target.table" in text
    assert f"{tmp_path}/outer.yaml: target.table" in text


@pytest.mark.parametrize("name", USED_BY_TASKS)
def test_there_is_all_that_workers_begin_with(name: str) -> None:
    """If there were not, they would begin without it, and only a log would say so."""
    importlib.import_module(name)
