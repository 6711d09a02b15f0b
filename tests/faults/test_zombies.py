"""Attempts and planners that are stopped in the middle (SIGSTOP), miss everything, and go on later (SIGCONT)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from tests.support.advice import follow
from tests.support.jvm_faults import JvmPoint, own_driver
from tests.support.stopped import resumed, stopped
from tests.support.world import LAKEMARK, World, as_dict, changes, landed_commits, newest_by_key

pytestmark = pytest.mark.on_both_lakes


def two_batches(world: World) -> tuple[str, Pipeline]:
    """One batch is in the table, the next one is planned."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(30), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(20, 50), 2), 1)
    world.coordinator(pipeline).plan()
    return topic, pipeline


def life_goes_on(world: World, pipeline: Pipeline, topic: str) -> None:
    """The planned batch lands without the zombie, and another one after it."""
    assert world.attempt(pipeline, 1).outcome == "applied"
    world.produce(topic, changes(range(10, 40), 3), 1)
    assert world.run_batch(pipeline).outcome == "applied"
    assert landed_commits(world, pipeline) == [2, 1, 0]


def assert_right(world: World, pipeline: Pipeline, batches: list[int]) -> None:
    assert landed_commits(world, pipeline) == batches
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow  # `tests/local/lake/test_java_log_store.py` asks the same of the one class that decides it
@pytest.mark.parametrize("point", ["at_the_commit", "data_files_written"])
def test_i5_a_jvm_that_stood_still_in_its_commit_changes_nothing(
    world: World, zombies: list, point: JvmPoint, tmp_path: Path
) -> None:
    """The strictest zombie: nothing is left for it to do but to give its commit file a name, and it does so after
    others have committed under that name and gone on. Delta's own LocalLogStore replaces their commit here."""
    topic, pipeline = two_batches(world)
    process = world.job(pipeline, BatchKey(1, 1), **own_driver(world, pipeline, tmp_path, point, "STOP"))
    zombies.append(process)
    jvm = stopped(process)
    assert "java" in jvm.name()
    life_goes_on(world, pipeline, topic)
    code, said = resumed(process, jvm)
    assert (code, '"already_applied"' in said) == (0, True), said
    assert_right(world, pipeline, [2, 1, 0])


def test_i1_a_planner_that_slept_between_decision_and_record_makes_no_plan(world: World, zombies: list) -> None:
    topic, pipeline = two_batches(world)
    world.attempt(pipeline, 1)
    world.settle(pipeline, 1)
    world.produce(topic, changes(range(5), 3), 1)
    process = world.start(LAKEMARK, "plan", pipeline.name, "--json", LAKEMARK_TEST_FAULT="plan.decided=stop")
    zombies.append(process)
    sleeper = stopped(process)
    world.produce(topic, changes(range(5, 9), 3), 1)  # so that the others' plan is another one
    planned = world.coordinator(pipeline).plan().batch
    code, said = resumed(process, sleeper)
    assert code == 0, said
    told, _ = json.JSONDecoder().raw_decode(said)  # on an object store, the requests come after it
    assert (told["plan"], told["batch"]) == ("pending", planned.to_json())
    world.drain(pipeline)
    assert_right(world, pipeline, [2, 1, 0])


@pytest.mark.slow
def test_i1_two_runs_at_once_share_the_work(world: World, zombies: list) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 50}})
    world.produce(topic, changes(range(100), 1) + changes(range(50, 150), 2))
    runs = [world.start(LAKEMARK, "run", pipeline.name, "--until-caught-up") for _ in range(2)]
    zombies += runs
    ends = [(process.communicate(timeout=250)[0], process.returncode) for process in runs]
    assert [code for _, code in ends] == [0, 0], ends
    assert_right(world, pipeline, [3, 2, 1, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("meanwhile", "refused"), [("it landed", "TargetBehindLedger"), ("its generation ended", "FencedGeneration")]
)
def test_i5_an_attempt_does_not_make_a_lost_target_again_to_land_there(
    world: World, zombies: list, meanwhile: str, refused: str
) -> None:
    """A target that was just made knows no fence and no batch."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(30), 1), 1)
    world.coordinator(pipeline).plan()
    process = world.job(pipeline, BatchKey(1, 0), LAKEMARK_TEST_FAULT="attempt.part_landed=stop")
    zombies.append(process)
    sleeper = stopped(process)
    if meanwhile == "it landed":
        world.drain(pipeline)
    else:
        assert world.lakemark("reset", pipeline.name, "--reason", "test").returncode == 0
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.target))
    code, said = resumed(process, sleeper)
    assert (code, refused in said) == (12, True), said
    assert landed_commits(world, pipeline) == []
    follow(world, pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()
