"""Any task of any run may be cleared alone, in any order: nothing stalls, nothing ends red, and the table is right."""

from __future__ import annotations

import pytest

from tests.support.installed import Installed
from tests.support.world import as_dict, changes, newest_by_key

SECONDS = 90  # far below the five minutes of a task's retries


@pytest.mark.slow
def test_tasks_are_cleared_alone_and_in_any_order(installed: Installed) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "cleared")
    dag_id = installed.dag(pipeline)
    world.produce(topic, changes(range(30), 1))
    run_id, state = installed.run(dag_id)
    assert state == "success"

    def clear(task: str) -> None:
        api.clear(dag_id, run_id, task, alone=True)
        assert installed.ended(dag_id, run_id, SECONDS) == "success", task
        assert {*installed.states(dag_id, run_id).values()} <= {"success", "skipped"}, task

    for seq, task in enumerate(["plan", "settle", "plan", "merge", "settle", "merge", "plan", "settle"], start=2):
        if task == "plan":
            world.produce(topic, changes(range(seq, 30 + seq), seq))  # which the run did not know of
        clear(task)
    [line] = [line["event"] for line in api.task_log(dag_id, run_id, "settle", 4) if "cleared: batch" in line["event"]]
    assert "was planned after this run's merge, so the next run merges and settles it" in line
    _, state = installed.run(dag_id)
    assert state == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))

    installed.lakemark("reset", "cleared", "--from", "earliest", "--reason", "clears")
    for task in ("settle", "merge", "settle", "plan", "settle", "merge"):
        clear(task)
    said = [line["event"] for line in api.task_log(dag_id, run_id, "settle", 5)]
    assert [line for line in said if "the generation of this run, 1, has ended" in line]
    _, state = installed.run(dag_id)
    assert state == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert installed.lakemark("audit", "cleared", "--deep")


@pytest.mark.slow
def test_the_tasks_of_a_landing_are_cleared_alone_and_in_any_order(installed: Installed) -> None:
    """With `merge_every` a run has six tasks, in two ledgers."""
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "cleared_landing", merge_every=2, archive="lake://bronze/cleared_landing")
    dag_id = installed.dag(pipeline)
    world.produce(topic, changes(range(30), 1))
    run_id, state = installed.run(dag_id)
    assert state == "success"
    tasks = ["plan_landing", "settle_landing", "land", "plan", "settle_landing", "merge", "plan_landing", "settle"]
    for seq, task in enumerate(tasks, start=2):
        if task.startswith("plan"):
            world.produce(topic, changes(range(seq, 30 + seq), seq))  # which the run did not know of
        api.clear(dag_id, run_id, task, alone=True)
        assert installed.ended(dag_id, run_id, SECONDS) == "success", task
        assert {*installed.states(dag_id, run_id).values()} <= {"success", "skipped"}, task
    installed.lakemark("run", "cleared_landing", "--until-caught-up")
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert installed.lakemark("audit", "cleared_landing", "--deep")
