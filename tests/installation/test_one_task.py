"""A run that shows as one task (`tasks: one`) does and tells what one of three tasks does."""

from __future__ import annotations

import signal

import pytest

from include.pipeline_file import Pipeline
from tests.support.installed import Installed, job_of
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key

_BATCH = {"limits": {"records_per_batch_max": 100}}


def _waiting(installed: Installed, name: str, records: int) -> tuple[Pipeline, str]:
    """A pipeline whose runs are one task, with records that wait; and its DAG."""
    topic = installed.world.topic()
    pipeline = installed.world.pipeline(topic, name, tasks="one", source=_BATCH)
    dag_id = installed.dag(pipeline)
    installed.world.produce(topic, changes(range(records), 1))
    return pipeline, dag_id


def test_a_run_of_one_task_sends_the_events_of_all_its_batches(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline, dag_id = _waiting(installed, "one_task", 250)
    run_id, state = installed.run(dag_id)
    assert (state, installed.states(dag_id, run_id)) == ("success", {"run": "success"})
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    told = [event["extra"]["batch_id"] for event in api.asset_events(pipeline.target.table)]
    assert told == [0, 1, 2]
    assert [event["batch_id"] for event in api.xcom(dag_id, run_id, "run")] == told

    again, state = installed.run(dag_id)  # there is nothing new
    assert (state, api.xcom(dag_id, again, "run")) == ("success", [])
    assert len(api.asset_events(pipeline.target.table)) == len(told)


@pytest.mark.slow
def test_a_run_whose_task_was_killed_tells_of_what_it_had_landed_before(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline, dag_id = _waiting(installed, "one_task_killed", 2000)
    run_id = api.trigger(dag_id)
    job = wait_until(lambda: job_of(pipeline), 90)
    wait_until(lambda: world.coordinator(pipeline).ledger.state().committed_through >= 1, 90)
    job.parent().send_signal(signal.SIGKILL)
    assert installed.ended(dag_id, run_id) == "success"
    assert api.tasks(dag_id, run_id)["run"]["try_number"] == 2
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    batches = world.coordinator(pipeline).ledger.state().batches
    told = [event["extra"]["batch_id"] for event in api.asset_events(pipeline.target.table)]
    assert told == [record.batch.batch_id for record in batches]
    assert len(told) >= 20
