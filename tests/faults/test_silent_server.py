"""A Spark server that takes connections and answers nothing: it is told of within seconds, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from include.installation.stack import Stack
from include.jobs.runner import run_job, run_maintenance
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from tests.faults.test_killed_processes import assert_right, by_spark, run, two_batches
from tests.support.world import World


@contextmanager
def stopped(stack: Stack) -> Iterator[None]:
    """The server's process is stopped, as it is in a long pause of its memory or its machine."""
    pid = stack.service_pid("spark")
    assert pid is not None
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


@pytest.mark.slow  # it waits for longer than any pause of a server that works
def test_a_silent_server_is_told_of_within_seconds(world: World, stack: Stack) -> None:
    pipeline = two_batches(world)
    with stopped(stack), pytest.raises(RetryableError, match="the Spark server does not answer") as failure:
        run(world, pipeline, 1)
    assert failure.value.where == world.settings.spark_remote
    assert run(world, pipeline, 1)[0]["outcome"] == "applied"
    assert_right(world, pipeline)


@pytest.mark.slow
def test_maintenance_is_told_of_it_too(world: World, stack: Stack) -> None:
    pipeline = two_batches(world, maintenance={"small_files_max": 1})
    run(world, pipeline, 1)  # so there are two files
    with stopped(stack), pytest.raises(RetryableError, match="the Spark server does not answer"):
        run_maintenance(world.settings, pipeline.name, "test", listen=lambda fact: None, log=print)


@pytest.mark.slow
def test_a_server_that_falls_silent_in_the_middle_leaves_nothing_half_done(world: World, stack: Stack) -> None:
    pipeline = two_batches(world)
    silence = stopped(stack)

    def stop(fact: dict[str, Any]) -> None:
        if fact.get("progress") == "merge":
            silence.__enter__()

    try:
        with pytest.raises(LakemarkError, match="the Spark server does not answer") as failure:
            run(by_spark(world), pipeline, 1, stop)
        assert not isinstance(failure.value, TerminalError)
    finally:
        silence.__exit__(None, None, None)
    # The server may go on with the MERGE of the attempt that has given up: the two race, and one lands.
    assert run(world, pipeline, 1)[0]["outcome"] in ("applied", "already_applied")
    assert_right(world, pipeline)


@pytest.mark.slow
def test_a_server_that_is_started_again_is_waited_for_and_that_is_told(world: World, stack: Stack) -> None:
    pipeline, lines = two_batches(world), []
    pid = stack.service_pid("spark")
    assert pid is not None
    supervisor = psutil.Process(pid).parent()
    assert supervisor is not None
    supervisor.suspend()  # it would start the server at once
    os.kill(pid, signal.SIGKILL)

    def hear(line: str) -> None:
        lines.append(line)
        if "takes no connection since" in line:
            supervisor.resume()

    try:
        [result] = run_job(world.settings, pipeline.name, world.key(pipeline, 1), "test", lambda fact: None, hear)
    finally:
        supervisor.resume()
    assert result["outcome"] == "applied"
    assert [line for line in lines if "waiting for the Spark server at sc://" in line]
    assert_right(world, pipeline)
