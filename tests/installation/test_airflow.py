"""Lakemark as a user has it: `lakemark up`, Airflow's own scheduler and REST API, `lakemark down`."""

from __future__ import annotations

import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from include.demo.airflow_api import AirflowApi
from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError
from include.table_events import BatchEvent
from tests.support.installed import Installed, job_of
from tests.support.receivers import Lineage, Mail
from tests.support.s3_server import S3Server
from tests.support.world import as_dict, newest_by_key, wait_until


def orders(count: int, seq: int) -> list[dict[str, Any]]:
    return [{"id": i, "seq": seq, "name": f"n{i}", "op": "u"} for i in range(count)]


def test_a_yaml_file_is_a_dag_that_merges_and_reruns_safely(installed: Installed, lineage: Lineage) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "orders", source={"limits": {"records_per_batch_max": 40}})
    dag_id = installed.dag(pipeline)
    world.produce(topic, orders(100, 1))
    first, state = installed.run(dag_id)  # three batches, one after the other in one job
    assert state == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert [r["outcome"] for r in api.xcom(dag_id, first, "merge")] == ["applied"] * 3
    events = [BatchEvent.from_json(event["extra"]) for event in api.asset_events("lake://silver/orders")]
    assert [(e.batch_id, e.counts["read"]) for e in events] == [(0, 40), (1, 40), (2, 20)]
    of_version = [e.query("select count(*) as n from t", world.settings)[0]["n"] for e in events]
    assert of_version == [40, 80, 100]

    metrics = installed.metrics.last
    wait_until(lambda: metrics.get("airflow.lakemark.lag_records.orders") == "100|g", 10)
    assert float(metrics["airflow.lakemark.lag_seconds.orders"].removesuffix("|g")) > 0
    assert metrics["airflow.lakemark.batches.orders"] == "1|c"
    assert metrics["airflow.lakemark.records_read.orders"] == "20|c"  # of the last batch
    assert metrics["airflow.lakemark.merge_duration.orders"].endswith("|ms")

    lines = api.task_log(dag_id, first, "merge", 1)
    named = [(line["batch_id"], line["attempt_id"]) for line in lines if line.get("attempt_id")]
    assert [batch for batch, _ in dict.fromkeys(named)] == [0, 1, 2]  # an attempt each
    assert {line["pipeline"] for line in lines if "batch_id" in line} == {"orders"}
    told = wait_until(lambda: lineage.outputs("/silver/orders"))[0]
    [output] = told["outputs"]
    assert (told["job"]["name"], output["facets"]["version"]["datasetVersion"]) == (f"{dag_id}.settle", "3")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 100
    [column] = output["facets"]["columnLineage"]["fields"]["name"]["inputFields"]
    assert (column["namespace"], column["name"], column["field"]) == (
        f"kafka://{world.bootstrap_servers}",
        topic,
        "name",
    )

    idle, state = installed.run(dag_id)  # nothing new: green, and nothing is run
    assert state == "success"
    assert installed.states(dag_id, idle) == {"plan": "success", "merge": "skipped", "settle": "skipped"}

    version = world.version(pipeline)
    api.clear(dag_id, first, "merge")
    assert installed.ended(dag_id, first) == "success"
    assert api.xcom(dag_id, first, "merge") == [{"batch_id": 0, "outcome": "already_applied"}]
    assert world.version(pipeline) == version
    again = [BatchEvent.from_json(event["extra"]) for event in api.asset_events("lake://silver/orders")[3:]]
    assert again == events  # at least once, and the same


@pytest.mark.slow
def test_with_merge_every_runs_land_and_every_so_often_one_merges(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline = world.pipeline(world.topic(), "landed", archive="lake://bronze/landed", merge_every=2)
    dag_id = installed.dag(pipeline)
    merging, landing = ("plan", "merge", "settle"), ("plan_landing", "land", "settle_landing")

    def states(run_id: str) -> tuple[set[str], set[str]]:
        found = installed.states(dag_id, run_id)
        return {found[task] for task in landing}, {found[task] for task in merging}

    world.produce(pipeline.source.topics[0], orders(30, 1))
    first, state = installed.run(dag_id)
    assert state == "success"
    assert states(first) == ({"success"}, {"success", "skipped"})  # landed, and not merged
    assert world.rows(pipeline) == []
    world.produce(pipeline.source.topics[0], orders(40, 2))
    second, state = installed.run(dag_id)
    assert (state, *states(second)) == ("success", {"success"}, {"success"})
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    world.produce(pipeline.source.topics[0], orders(20, 3))
    third, _ = installed.run(dag_id)
    version = world.version(pipeline)
    api.clear(dag_id, first, "land")  # and all that follows: what waits since the third run is merged or waits on
    assert installed.ended(dag_id, first) == "success"
    rest, state = installed.run(dag_id)  # nothing new in Kafka: what waits is merged
    assert state == "success"
    assert states(rest)[0] == {"success", "skipped"}
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert world.version(pipeline) == version + 1
    assert states(third)[0] == {"success"}


def test_data_starts_a_run_and_the_table_starts_the_next(installed: Installed) -> None:
    """on_data, the table's asset event, and after it another pipeline and the example DAG, which reads that version."""
    world, api = installed.world, installed.api
    topic = world.topic()
    upstream = world.pipeline(
        topic,
        "watched",
        schedule={"on_data": {"records": 1000, "seconds": 3}},
        source={"schema": "id BIGINT, seq BIGINT, name STRING, op STRING, dep_delay INT"},
        target={"table": "lake://silver/flights"},
    )
    second = world.topic()
    downstream = world.pipeline(second, "after_flights", schedule={"tables": ["lake://silver/flights"]})
    dag_id, after_id = installed.dag(upstream), installed.dag(downstream)
    api.unpause("lakemark_example_downstream")
    world.produce(second, orders(10, 1))
    sent = world.produce(topic, [{**order, "dep_delay": order["id"]} for order in orders(100, 1)])

    def done(of: str) -> dict[str, Any] | None:
        return next((run for run in api.runs(of) if run["state"] == "success"), None)

    wait_until(lambda: as_dict(world.rows(upstream)) == newest_by_key(sent), 240)
    assert {run["run_type"] for run in api.runs(dag_id)} == {"asset_triggered"}
    wait_until(lambda: done(after_id), 240)
    assert len(world.rows(downstream)) == 10  # it took what had waited for it
    example = wait_until(lambda: done("lakemark_example_downstream"), 120)
    [read] = api.xcom("lakemark_example_downstream", example["dag_run_id"], "late_flights")
    assert (read["batch_id"], read["changed"], read["late"]) == (0, 100, 39)
    assert read["table_version"] == api.asset_events("lake://silver/flights")[0]["extra"]["table_version"]
    assert len(api.runs(dag_id)) <= 2  # the first look starts one that finds nothing, or the data itself


def refill(installed: Installed, pipeline: Pipeline, **form: Any) -> tuple[str, str]:
    """A run of the pipeline's backfill DAG, and how it ended."""
    dag_id = f"lakemark__{pipeline.name}__backfill"
    run_id = installed.api.trigger(dag_id, **form)
    return run_id, installed.ended(dag_id, run_id)


def filled(installed: Installed, name: str) -> Pipeline:
    """A pipeline with three batches, all of whose rows somebody has spoiled since."""
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 40}})
    installed.dag(pipeline)
    wait_until(lambda: installed.api.dag_exists(f"lakemark__{name}__backfill"), 90)
    world.produce(topic, orders(100, 1))
    installed.lakemark("run", name, "--until-caught-up")
    with world.session() as spark:
        spark.sql(f"UPDATE delta.`{world.coordinator(pipeline).tables.target}` SET name = 'spoiled'").collect()
    return pipeline


@pytest.mark.slow
def test_a_backfill_from_the_form(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline, dag_id = filled(installed, "refilled"), "lakemark__refilled__backfill"
    with pytest.raises(RetryableError, match="records_per_chunk"):  # refused before anything runs
        api.trigger(dag_id, what="batches", batches="0", records_per_chunk=0)
    run_id, state = refill(installed, pipeline, what="batches", batches="0-1", reason="spoiled")
    assert state == "success"
    assert api.xcom(dag_id, run_id, "preview", "preview")["records_max"] == 80
    names = [row["name"] for row in as_dict(world.rows(pipeline)).values()]
    assert names.count("spoiled") == 20  # those of batch 2
    assert json.loads(installed.lakemark("backfill", "refilled", "--list", "--json"))[0]["state"] == "applied"


@pytest.mark.slow
def test_a_failed_gate_is_told_and_the_quarantine_is_replayed_from_the_form(
    installed: Installed, store: S3Server
) -> None:
    world, api = installed.world, installed.api
    topic, rule = world.topic(), {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}

    def gated(on_fail: str, *rules: dict) -> Pipeline:
        world.write_suite("gated", rules)
        return world.pipeline(topic, "gated", quality={"suite": "gated", "on_fail": on_fail})

    pipeline = gated("fail", rule)
    world.produce(topic, [*orders(5, 1), {"id": 9, "seq": 1}])
    dag_id = installed.dag(pipeline)
    run_id, state = installed.run(dag_id)
    assert state == "failed"
    assert "1 of 6 rows break it" in wait_until(lambda: api.run_note(dag_id, run_id))
    assert api.tasks(dag_id, run_id)["merge"]["try_number"] == 1  # a person must act

    link = wait_until(lambda: api.links(dag_id, run_id, "merge")["Data quality"])
    page, attempt_id = link.split("#")
    assert page == "https://docs.example/index.html"
    bucket = store.bucket("data-docs")
    assert installed.run("lakemark_data_docs")[1] == "success"
    assert f'<tr id="{attempt_id}">' in bucket.Object("index.html").get()["Body"].read().decode()

    gated("quarantine", rule)
    api.clear(dag_id, run_id, "merge")
    assert installed.ended(dag_id, run_id) == "success"
    assert sorted(as_dict(world.rows(pipeline))) == [0, 1, 2, 3, 4]
    [event] = api.asset_events("lake://silver/gated")
    assert event["extra"]["quality"] == "quarantined"
    gated("quarantine")
    assert refill(installed, pipeline, what="the quarantine")[1] == "success"
    assert sorted(as_dict(world.rows(pipeline))) == [0, 1, 2, 3, 4, 9]
    assert "1 replayed" in " ".join(installed.lakemark("quarantine", "list", "gated").split())


@pytest.mark.slow
def test_backfills_whole_life(installed: Installed) -> None:
    """Only a preview, a wrong form, chunks restarted one by one, a new table that takes the target's place, cancel."""
    world, api = installed.world, installed.api
    pipeline, dag_id = filled(installed, "refilled_whole"), "lakemark__refilled_whole__backfill"
    look, state = refill(installed, pipeline, what="batches", batches="0-1", only_preview=True)
    assert state == "success"
    assert api.tasks(dag_id, look)["plan"]["state"] == "skipped"
    wrong, state = refill(installed, pipeline, what="batches", batches="7")
    assert state == "failed"
    assert "batches of this generation, 0 to 2" in wait_until(lambda: api.run_note(dag_id, wrong))

    run_id, state = refill(installed, pipeline, what="batches", batches="0-1", records_per_chunk=30)
    assert state == "success"
    version = world.version(pipeline)
    api.clear(dag_id, run_id, "chunk", map_index=1)
    assert installed.ended(dag_id, run_id) == "success"
    assert world.version(pipeline) == version
    tries = {name: task["try_number"] for name, task in api.tasks(dag_id, run_id).items() if "chunk" in name}
    assert tries == {"chunk[0]": 1, "chunk[1]": 2, "chunk[2]": 1}

    assert refill(installed, pipeline, what="everything, into a new table")[1] == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    world.produce(pipeline.source.topics[0], orders(10, 2))
    assert installed.run("lakemark__refilled_whole")[1] == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", pipeline.name, "--json"))[0]["findings"] == []
    late, state = refill(installed, pipeline, what="cancel a backfill", backfill=2)
    assert state == "failed"
    assert "was swapped" in wait_until(lambda: api.run_note(dag_id, late))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 6])
def test_tasks_are_cleared_at_random_in_any_order_and_twice_at_once(installed: Installed, rounds: int) -> None:
    world, api = installed.world, installed.api
    random = Random(20261121)
    topic, name = world.topic(), f"cleared_{rounds}"
    pipeline = world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 40}})
    dag_id = installed.dag(pipeline)
    runs = []
    for seq in (1, 2):
        world.produce(topic, orders(60, seq))
        runs.append(installed.run(dag_id)[0])
    for number in range(rounds):
        world.produce(topic, orders(20, 3 + number))
        runs.append(api.trigger(dag_id))  # and clear what has ended, and what runs
        for _ in range(2 if rounds == 1 else 4):
            clear_twice_at_once(api, dag_id, random.choice(runs), random.choice(["plan", "merge", "settle"]))
        for run in runs:
            assert installed.ended(dag_id, run) == "success", (run, api.run_note(dag_id, run))
    installed.lakemark("run", name, "--until-caught-up")
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", name, "--deep", "--json"))[0]["findings"] == []


def clear_twice_at_once(api: AirflowApi, dag_id: str, run_id: str, task: str) -> None:
    """One of the two may be refused by Airflow itself (a conflict, or with SQLite an internal error): its rows changed
    under its hands."""

    def refusal(_: int) -> str | None:
        try:
            api.clear(dag_id, run_id, task)
        except RetryableError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(2) as both:
        refusals = list(both.map(refusal, range(2)))
    assert None in refusals, refusals
    assert all(said is None or "status 409" in said or "status 500" in said for said in refusals), refusals


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["task", "worker", "scheduler"])
def test_whoever_is_killed_no_orphan_does_harm(installed: Installed, victim: str) -> None:
    """SIGKILL in the middle of a merge, to the task's process, to its supervisor, or to the scheduler."""
    world, api = installed.world, installed.api
    topic, name = world.topic(), f"orphan_of_{victim}"
    pipeline = world.pipeline(topic, name)
    dag_id = installed.dag(pipeline)
    world.produce(topic, orders(100, 1))
    run_id = api.trigger(dag_id)
    job = wait_until(lambda: job_of(pipeline), 90)
    wait_until(lambda: world.coordinator(pipeline).ledger.state().batches[0].attempts)
    task = job.parent()
    process = {"task": task, "worker": task.parent(), "scheduler": None}[victim]
    process = process or psutil.Process(installed.stack.service_pid("airflow-scheduler"))
    process.send_signal(signal.SIGKILL)
    if victim == "task":
        wait_until(lambda: not job.is_running() or job.status() == psutil.STATUS_ZOMBIE)
    assert installed.ended(dag_id, run_id, 400) == "success"
    wait_until(lambda: job_of(pipeline) is None)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", name, "--json"))[0]["findings"] == []


def test_airflow_retries_a_killed_job(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "killed_job")
    dag_id = installed.dag(pipeline)
    world.produce(topic, orders(100, 1))
    run_id = api.trigger(dag_id)

    process = wait_until(lambda: job_of(pipeline), 90)
    wait_until(lambda: world.coordinator(pipeline).ledger.state().batches[0].attempts)
    process.send_signal(signal.SIGKILL)
    assert installed.ended(dag_id, run_id) == "success"
    assert api.tasks(dag_id, run_id)["merge"]["try_number"] == 2
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", pipeline.name, "--json"))[0]["findings"] == []


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
    [status] = json.loads(installed.lakemark("status", "terminal", "--json"))
    assert why in status["problem"]
    [text] = wait_until(lambda: mail.of("Lakemark: terminal failed"))
    assert why in text


@pytest.mark.slow
def test_a_stale_table_is_told_once_and_so_is_its_end(installed: Installed, mail: Mail) -> None:
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "forgotten", stale_after_minutes=0.001)
    world.produce(topic, orders(10, 1))
    installed.api.unpause("lakemark_watch")  # runs every minute from now on, and whenever it is asked to
    installed.run("lakemark_watch")
    [text] = wait_until(lambda: mail.of("Lakemark: forgotten is stale"))
    assert "a record has waited for" in text
    assert installed.run("lakemark_watch")[1] == "success"
    assert len(mail.of("Lakemark: forgotten is stale")) == 1
    installed.lakemark("run", "forgotten", "--until-caught-up")
    installed.run("lakemark_watch")
    wait_until(lambda: mail.of("Lakemark: forgotten is fresh again"))
    (world.settings.pipelines / f"{pipeline.name}.yaml").unlink()


@pytest.mark.slow
def test_i5_a_reset_from_airflow_begins_one_generation_however_often_it_is_cleared(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "begun_again")
    world.produce(topic, orders(10, 1))
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
        world.produce(topic, [{**order, "id": order["id"] + 100 * seq} for order in orders(30, seq)])
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
    world.produce(topic, orders(100, 1))
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
    assert "broken.yaml, field schedule" in error["stack_trace"]
    assert "now and then" in error["stack_trace"]
    said = installed.lakemark("validate", "broken", code=1)
    assert "field schedule" in said
    alive = installed.world.pipeline("t-none", "added_while_broken")
    assert installed.dag(alive) == "lakemark__added_while_broken"
    broken.unlink()
    wait_until(lambda: not installed.api.import_errors(), 90)


@pytest.mark.slow
def test_the_command_line_leaves_the_same_ledger(installed: Installed) -> None:
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "by_hand", source={"limits": {"records_per_batch_max": 60}})
    world.produce(topic, orders(100, 1))
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
