"""What an operator meets and does: errors, stale tables, resets, maintenance, broken files, the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from include.protocol.errors import RetryableError
from tests.support.installed import Installed
from tests.support.receivers import Mail
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key


@pytest.mark.slow
def test_a_terminal_error_is_told_and_not_retried(installed: Installed, mail: Mail) -> None:
    pipeline = installed.world.pipeline("no-such-topic", "terminal")
    dag_id = installed.dag(pipeline)
    run_id, state = installed.run(dag_id)
    assert state == "failed"
    plan = installed.api.tasks(dag_id, run_id)["plan"]
    assert (plan["state"], plan["try_number"]) == ("failed", 1)
    why = "create the topic, or fix `source.topics`"  # said wherever people look
    assert why in wait_until(lambda: installed.api.run_note(dag_id, run_id))
    lines = installed.api.task_log(dag_id, run_id, "plan", 1)
    errors = [line for line in lines if line.get("level") == "error"]  # after it come only lineage and mail
    assert why in json.dumps(errors[-1]), errors[-1]
    [status] = json.loads(installed.lakemark("status", "terminal", "--json", code=1))
    assert why in status["problem"]
    [text] = wait_until(lambda: mail.of("Lakemark: terminal failed"))
    assert why in text


@pytest.mark.slow
def test_a_stale_table_is_told_once_and_so_is_its_end(installed: Installed, mail: Mail) -> None:
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "forgotten", stale_after_minutes=0.001)
    world.produce(topic, changes(range(10), 1))
    installed.api.unpause("lakemark_watch")  # runs every minute from now on, and whenever it is asked to
    installed.run("lakemark_watch")
    [text] = wait_until(lambda: mail.of("Lakemark: forgotten is stale"))
    assert "a record has waited for" in text
    assert installed.run("lakemark_watch")[1] == "success"
    assert len(mail.of("Lakemark: forgotten is stale")) == 1
    installed.lakemark("run", "forgotten", "--until-caught-up")
    installed.run("lakemark_watch")
    wait_until(lambda: mail.of("Lakemark: forgotten is fresh again"))
    ended = ("success", "failed")

    def scheduled() -> set[str]:
        runs = [run for run in installed.api.runs("lakemark_watch") if run["run_type"] == "scheduled"]
        return {run["state"] for run in runs if run["state"] in ended}

    assert wait_until(scheduled, 150) == {"success"}
    (world.settings.pipelines / f"{pipeline.name}.yaml").unlink()


@pytest.mark.slow
def test_i5_a_reset_from_airflow_begins_one_generation_however_often_it_is_cleared(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "begun_again")
    world.produce(topic, changes(range(10), 1))
    installed.lakemark("run", "begun_again", "--until-caught-up")
    dag_id = "lakemark__begun_again__reset"
    wait_until(lambda: api.dag_exists(dag_id), 90)
    run_id = api.trigger(dag_id, **{"from": "earliest", "reason": "a test"})
    assert installed.ended(dag_id, run_id) == "success"
    api.clear(dag_id, run_id, "reset")
    assert installed.ended(dag_id, run_id) == "success"
    [started] = world.coordinator(pipeline).ledger.state().generations
    assert (started.generation, started.origin, started.reason) == (2, "earliest", "a test")
    with pytest.raises(RetryableError, match=r"status 4(00|22)"):
        api.trigger(dag_id, **{"from": "the day before", "reason": "no such place"})


@pytest.mark.slow
def test_the_maintenance_dag_keeps_every_pipelines_tables(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "kept", maintenance={"small_files_max": 1})
    for seq in (1, 2, 3):
        world.produce(topic, [{**order, "id": order["id"] + 100 * seq} for order in changes(range(30), seq)])
        installed.lakemark("run", "kept")
    wait_until(lambda: api.dag_exists("lakemark__kept"), 90)
    api.unpause("lakemark_maintenance")  # last night's run starts by itself
    [run] = wait_until(lambda: api.runs("lakemark_maintenance"), 90)
    run_id = run["dag_run_id"]
    assert installed.ended("lakemark_maintenance", run_id, 1200) == "success"
    names = [path.stem for path in sorted(world.settings.pipelines.glob("*.yaml"))]
    lines = "".join(line["event"] for line in api.task_log("lakemark_maintenance", run_id, "report", 1))
    assert "kept target: OPTIMIZE" in lines
    assert all(f"{name} " in lines for name in names if world.coordinator(world.load(name)).ledger.rows())
    assert json.loads(installed.lakemark("audit", "kept", "--deep", "--json"))[0]["findings"] == []
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))


@pytest.mark.slow
def test_i1_i5_a_dag_run_and_the_command_line_at_once(installed: Installed) -> None:
    """And a second run of the same DAG, beside the scheduler's."""
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "raced", source={"limits": {"records_per_batch_max": 60}})
    dag_id = installed.dag(pipeline)
    world.produce(topic, changes(range(100), 1))
    environment = {**installed.stack.addresses(), **installed.stack.airflow.environment()}
    second = world.start(str(Path(sys.executable).parent / "airflow"), "dags", "test", dag_id, **environment)
    run_id = installed.api.trigger(dag_id)
    installed.lakemark("run", "raced", "--until-caught-up")
    assert installed.ended(dag_id, run_id) == "success"
    second.communicate(timeout=240)  # the scheduler takes tasks of that run as well, so it may end as failed
    installed.lakemark("run", "raced", "--until-caught-up")
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", "raced", "--deep", "--json"))[0]["findings"] == []


@pytest.mark.slow
def test_a_broken_file_is_one_import_error_and_the_rest_lives(installed: Installed) -> None:
    pipelines = installed.stack.settings.pipelines
    broken = pipelines / "broken.yaml"
    broken.write_text("name: broken\nschedule: now and then\n")
    [error] = wait_until(installed.api.import_errors, 90)
    assert "broken.yaml: schedule" in error["stack_trace"]
    assert "now and then" in error["stack_trace"]
    said = installed.lakemark("validate", "broken", code=1)
    assert "broken.yaml: schedule: expected a cron expression" in said
    alive = installed.world.pipeline("t-none", "added_while_broken")
    assert installed.dag(alive) == "lakemark__added_while_broken"
    broken.unlink()
    wait_until(lambda: not installed.api.import_errors(), 90)


@pytest.mark.slow
def test_the_command_line_leaves_the_same_ledger(installed: Installed) -> None:
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "by_hand", source={"limits": {"records_per_batch_max": 60}})
    world.produce(topic, changes(range(100), 1))
    preview = json.loads(installed.lakemark("plan", "by_hand", "--dry-run", "--json"))
    assert (preview["plan"], preview["recorded"], preview["lag_records"]) == ("new", False, 40)
    assert world.coordinator(pipeline).ledger.rows() == []
    assert json.loads(installed.lakemark("plan", "by_hand", "--json"))["batch"] == preview["batch"]
    [result] = json.loads(installed.lakemark("run", "by_hand", "--json"))
    assert (result["batch_id"], result["outcome"], result["counts"]["applied"]) == (0, "applied", 60)
    [result] = json.loads(installed.lakemark("run", "by_hand", "--until-caught-up", "--json"))
    assert result["batch_id"] == 1
    assert json.loads(installed.lakemark("run", "by_hand", "--json")) == []
    [status] = json.loads(installed.lakemark("status", "by_hand", "--json"))
    assert (status["committed_through"], status["lag_records"], status["records"]["read"]) == (1, 0, 100)
    events = [row["event"] for row in world.coordinator(pipeline).ledger.rows()]
    assert events == ["topics_started", *["planned", "attempt_started", "attempt_ended", "committed"] * 2]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("explain", "by_hand", "--json"))["guarantee"] == "exactly_once"
