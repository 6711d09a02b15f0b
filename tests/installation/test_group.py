"""A group: one DAG run serves its pipelines, and each has its own ledger, errors, retries, notes and events."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from include.pipeline_file import Pipeline
from tests.support.installed import Installed, jobs_with
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key

_QUEUE = "lakemark-waiting://group/queue"
_EAGER = {"on_data": {"records": 1, "seconds": 0}}


def member(installed: Installed, group: str, name: str, **changes_of_file: object) -> Pipeline:
    topic = installed.world.topic()
    return installed.world.pipeline(topic, name, group=group, schedule=_EAGER, **changes_of_file)


def group_dag(installed: Installed, group: str) -> str:
    dag_id = f"lakemark_group__{group}"
    wait_until(lambda: installed.api.dag_exists(dag_id), 90)
    installed.api.unpause(dag_id)
    return dag_id


def own_dag(installed: Installed, pipeline: Pipeline) -> str:
    wait_until(lambda: installed.api.dag_exists(f"lakemark__{pipeline.name}"), 90)
    return f"lakemark__{pipeline.name}"


def send(installed: Installed, pipeline: Pipeline, records: int, seq: int) -> None:
    installed.world.produce(pipeline.source.topics[0], changes(range(records), seq))


def event_by_hand(installed: Installed, group: str) -> None:
    installed.api.send_asset_event(f"lakemark-waiting://group/{group}")


def is_right(installed: Installed, pipeline: Pipeline) -> bool:
    world = installed.world
    return as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))


def test_one_run_serves_all_that_have_new_data(installed: Installed) -> None:
    api, members = installed.api, [member(installed, "served", f"served_{n}") for n in range(4)]
    for pipeline in members:
        send(installed, pipeline, 30, 1)
    dag_id = group_dag(installed, "served")
    for pipeline in members:
        own_dag(installed, pipeline)
        wait_until(lambda pipeline=pipeline: is_right(installed, pipeline), 120)
    wait_until(lambda: not api.unfinished_runs(dag_id), 90)
    assert {run["state"] for run in api.runs(dag_id)} == {"success"}
    for pipeline in members:
        assert api.runs(f"lakemark__{pipeline.name}") == []
        assert told(installed, pipeline) == [0]
    [batch] = installed.world.coordinator(members[0]).ledger.state().batches
    assert batch.attempts[-1].started_by.startswith(f"airflow dags/{dag_id}/runs/")


@pytest.mark.slow
def test_who_is_due_while_a_run_is_on_has_a_turn_in_the_next_one_however_many_events_that_takes(
    installed: Installed,
) -> None:
    """Airflow's next run gets the first of these events only."""
    api, world = installed.api, installed.world
    limits = {"limits": {"records_per_batch_max": 100}}
    long, *others = [member(installed, "queue", f"queue_{name}", source=limits) for name in ("long", "a", "b", "c")]
    for pipeline in (long, *others):
        own_dag(installed, pipeline)
    send(installed, long, 2000, 1)
    dag_id = group_dag(installed, "queue")
    wait_until(lambda: world.coordinator(long).ledger.state().committed_through >= 1, 120)
    [task] = {worker.parent() for worker in jobs_with("--members")}
    task.suspend()
    try:
        for pipeline in others:
            before = len(api.asset_events(_QUEUE))
            send(installed, pipeline, 10, 1)
            wait_until(lambda before=before: len(api.asset_events(_QUEUE)) > before, 60)
    finally:
        task.resume()
    # A start that had no effect would be repeated after two minutes.
    wait_until(lambda: all(is_right(installed, pipeline) for pipeline in (long, *others)), 90)
    wait_until(lambda: not api.unfinished_runs(dag_id), 90)
    api.set_paused(dag_id, True)


def test_a_member_that_fails_does_so_in_its_own_dag_and_holds_up_no_other(installed: Installed) -> None:
    api, world = installed.api, installed.world
    well, ill = member(installed, "mixed", "mixed_well"), member(installed, "mixed", "mixed_ill")
    for pipeline in (well, ill):
        send(installed, pipeline, 20, 1)
    dag_id, own = group_dag(installed, "mixed"), own_dag(installed, ill)
    own_dag(installed, well)
    wait_until(lambda: is_right(installed, well) and is_right(installed, ill), 120)
    topic = ill.source.topics[0]
    world.admin.delete_topics([topic])[topic].result()
    [run] = wait_until(lambda: [run for run in api.runs(own) if run["state"] == "failed"], 180)
    assert "a topic does not exist" in wait_until(lambda: api.run_note(own, run["dag_run_id"]))
    send(installed, well, 20, 2)
    wait_until(lambda: is_right(installed, well), 90)
    wait_until(lambda: not api.unfinished_runs(dag_id), 90)
    assert {run["state"] for run in api.runs(dag_id)} == {"success"}
    notes = [api.run_note(dag_id, run["dag_run_id"]) or "" for run in api.runs(dag_id)]
    assert any("mixed_ill: goes on in a run of its own: a topic does not exist" in note for note in notes)
    installed.api.set_paused(dag_id, True)


def test_a_member_whose_own_dag_is_paused_has_no_turn(installed: Installed) -> None:
    api = installed.api
    awake, paused = member(installed, "sleepy", "sleepy_awake"), member(installed, "sleepy", "sleepy_paused")
    own_dag(installed, awake)
    api.set_paused(own_dag(installed, paused), True)
    for pipeline in (awake, paused):
        send(installed, pipeline, 20, 1)
    dag_id = group_dag(installed, "sleepy")
    wait_until(lambda: is_right(installed, awake), 120)
    run_id, state = installed.run(dag_id)  # by a person: for all members
    assert state == "success"
    assert api.xcom(dag_id, run_id, "drain") == {
        "sleepy_awake": "nothing new",
        "sleepy_paused": "lakemark__sleepy_paused is paused",
    }
    assert "lakemark__sleepy_paused is paused" in wait_until(lambda: api.run_note(dag_id, run_id))
    assert installed.world.coordinator(paused).ledger.state().batches == ()
    api.unpause(f"lakemark__{paused.name}")
    assert installed.run(dag_id)[1] == "success"
    assert is_right(installed, paused)
    api.set_paused(dag_id, True)


@pytest.mark.slow
def test_a_member_whose_worker_was_killed_goes_on_in_a_run_of_its_own(installed: Installed) -> None:
    api, world = installed.api, installed.world
    slow, quick = (
        member(installed, "shot", f"shot_{name}", source={"limits": {"records_per_batch_max": 100}})
        for name in ("slow", "quick")
    )
    for pipeline in (slow, quick):
        own_dag(installed, pipeline)
    send(installed, slow, 3000, 1)
    dag_id = group_dag(installed, "shot")
    wait_until(lambda: world.coordinator(slow).ledger.state().committed_through >= 1, 120)
    for worker in jobs_with("--members"):
        worker.send_signal(signal.SIGKILL)
    send(installed, quick, 20, 1)
    wait_until(lambda: is_right(installed, slow) and is_right(installed, quick), 180)
    assert api.runs(f"lakemark__{quick.name}") == []
    [run] = api.runs(f"lakemark__{slow.name}")
    assert installed.ended(f"lakemark__{slow.name}", run["dag_run_id"]) == "success"
    wait_until(lambda: told(installed, slow) == planned(installed, slow), 90)
    api.set_paused(dag_id, True)


@pytest.mark.slow
def test_a_groups_run_whose_task_was_killed_tells_of_what_it_had_landed_before(installed: Installed) -> None:
    api, world = installed.api, installed.world
    limits = {"limits": {"records_per_batch_max": 100}}
    goes_on, paused = [member(installed, "again", f"again_{name}", source=limits) for name in ("goes_on", "paused")]
    for pipeline, records in ((goes_on, 2000), (paused, 50)):
        own_dag(installed, pipeline)
        send(installed, pipeline, records, 1)
    dag_id = group_dag(installed, "again")
    wait_until(lambda: world.coordinator(goes_on).ledger.state().committed_through >= 1, 120)
    wait_until(lambda: is_right(installed, paused), 60)
    workers = jobs_with("--members")
    [task] = {worker.parent() for worker in workers}
    task.send_signal(signal.SIGKILL)
    api.set_paused(f"lakemark__{paused.name}", True)
    wait_until(lambda: is_right(installed, goes_on), 180)
    for pipeline in (goes_on, paused):  # the next try has no turn for the second one, and tells of it nevertheless
        wait_until(lambda pipeline=pipeline: told(installed, pipeline) == planned(installed, pipeline), 120)
    [run] = api.runs(dag_id)
    assert api.tasks(dag_id, run["dag_run_id"])["drain"]["try_number"] == 2
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)
    api.set_paused(dag_id, True)


@pytest.mark.slow
def test_a_group_goes_on_after_a_persons_hand_in_its_runs_and_events(installed: Installed) -> None:
    """An event that is no event of its trigger; runs that a person ends, when one more has been queued already."""
    api, world = installed.api, installed.world
    pipeline = member(installed, "handled", "handled_one", source={"limits": {"records_per_batch_max": 100}})
    own_dag(installed, pipeline)
    send(installed, pipeline, 2000, 1)
    dag_id = group_dag(installed, "handled")
    wait_until(lambda: world.coordinator(pipeline).ledger.state().committed_through >= 1, 120)
    event_by_hand(installed, "handled")
    [task] = {worker.parent() for worker in jobs_with("--members")}
    task.suspend()
    try:
        for run_id in wait_until(lambda: api.unfinished_runs(dag_id), 60):
            api.fail_run(dag_id, run_id)
    finally:
        task.resume()
    send(installed, pipeline, 20, 2)
    wait_until(lambda: is_right(installed, pipeline), 180)
    wait_until(lambda: not api.unfinished_runs(dag_id), 90)
    event_by_hand(installed, "handled")
    send(installed, pipeline, 20, 3)
    wait_until(lambda: is_right(installed, pipeline), 90)
    api.set_paused(dag_id, True)


@pytest.mark.slow
def test_a_member_that_leaves_its_group_soon_after_it_came_is_served(installed: Installed) -> None:
    """Within half a minute, in which Airflow keeps no other form of a DAG, by default."""
    pipeline = member(installed, "visited", "visitor")
    own_dag(installed, pipeline)
    installed.world.pipeline(pipeline.source.topics[0], "visitor", schedule=_EAGER)
    installed.api.unpause(f"lakemark__{pipeline.name}")
    send(installed, pipeline, 20, 1)
    wait_until(lambda: is_right(installed, pipeline), 60)
    assert installed.api.runs(f"lakemark__{pipeline.name}")


def told(installed: Installed, pipeline: Pipeline) -> list[int]:
    return sorted(event["extra"]["batch_id"] for event in installed.api.asset_events(pipeline.target.table))


def planned(installed: Installed, pipeline: Pipeline) -> list[int]:
    return [record.batch.batch_id for record in installed.world.coordinator(pipeline).ledger.state().batches]


def test_a_dag_that_is_unpaused_long_after_it_was_parsed_begins_to_wait_for_data(installed: Installed) -> None:
    """Airflow starts its trigger when it parses the file, which nothing else would make it do for an hour."""
    topic = installed.world.topic()
    pipeline = installed.world.pipeline(topic, "late_riser", schedule=_EAGER)
    dag_id = own_dag(installed, pipeline)
    wait_until(lambda: datetime.now(UTC) - installed.api.parsed_at(dag_id) > timedelta(seconds=12), 120)
    installed.api.unpause(dag_id)
    send(installed, pipeline, 20, 1)
    wait_until(lambda: is_right(installed, pipeline), 90)
    installed.api.set_paused(dag_id, True)
