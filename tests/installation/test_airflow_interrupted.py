"""Tasks that are cleared at random, and processes of Airflow that are killed."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import psutil
import pytest

from include.demo.airflow_api import AirflowApi
from include.protocol.errors import RetryableError
from tests.support.installed import Installed, job_of
from tests.support.stopped import is_over
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key


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
        world.produce(topic, changes(range(60), seq))
        runs.append(installed.run(dag_id)[0])
    for number in range(rounds):
        world.produce(topic, changes(range(20), 3 + number))
        runs.append(api.trigger(dag_id))  # and clear what has ended, and what runs
        for _ in range(2 if rounds == 1 else 4):
            clear_twice_at_once(api, dag_id, random.choice(runs), random.choice(["plan", "merge", "settle"]))
        for run in runs:
            assert installed.ended(dag_id, run) == "success", (run, api.run_note(dag_id, run))
    installed.lakemark("run", name, "--until-caught-up")
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", name, "--deep", "--json"))[0]["findings"] == []


def clear_twice_at_once(api: AirflowApi, dag_id: str, run_id: str, task: str) -> None:
    """Airflow itself may refuse one of the two (with a conflict, or with an internal error on SQLite), because its rows
    changed meanwhile."""

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
    world.produce(topic, changes(range(100), 1))
    run_id = api.trigger(dag_id)
    job = wait_until(lambda: job_of(pipeline), 90)
    wait_until(lambda: world.coordinator(pipeline).ledger.state().batches[0].attempts)
    task = job.parent()
    process = {"task": task, "worker": task.parent(), "scheduler": None}[victim]
    process = process or psutil.Process(installed.stack.service_pid("airflow-scheduler"))
    process.send_signal(signal.SIGKILL)
    if victim == "task":
        wait_until(lambda: is_over(job))
    assert installed.ended(dag_id, run_id, 400) == "success"
    wait_until(lambda: job_of(pipeline) is None)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", name, "--json"))[0]["findings"] == []


def test_airflow_retries_a_killed_job(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "killed_job")
    dag_id = installed.dag(pipeline)
    world.produce(topic, changes(range(100), 1))
    run_id = api.trigger(dag_id)

    process = wait_until(lambda: job_of(pipeline), 90)
    wait_until(lambda: world.coordinator(pipeline).ledger.state().batches[0].attempts)
    title = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b" --pipeline " in title, "a fork names itself by one text; a started job has one for each argument"
    process.send_signal(signal.SIGKILL)
    assert installed.ended(dag_id, run_id) == "success"
    assert api.tasks(dag_id, run_id)["merge"]["try_number"] == 2
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", pipeline.name, "--json"))[0]["findings"] == []
