"""Runs jobs where the settings say Spark is, and turns what they say into results and errors.

A job is a child process of its caller, or, where a cluster runs its driver, a `ClusterJob` that can be left alone.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from include.cluster_job import ClusterJob, ClusterWatch
from include.job_report import JobReport, Listen
from include.protocol.batch import BatchKey
from include.protocol.ranges import offsets_as_argument
from include.protocol.runs import RunPlan
from include.settings import PROJECT_ROOT, Settings
from include.spark_command import spark_command

Log = Callable[[str], None]
_LOOK_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


def run_job(
    settings: Settings,
    pipeline: str,
    work: BatchKey | RunPlan | None,
    started_by: str,
    listen: Listen,
    log: Log,
) -> list[dict[str, Any]]:
    """Runs the job for one batch, for a run's batches, or until caught up (None), where the settings say Spark is.

    Args:
        listen: takes every JSON line of the job. log: takes every line that the job (and Spark) logs.

    Returns:
        The result of every batch, as data (see `spark_jobs.merge_job`).

    Raises:
        RetryableError, TerminalError: as the job reported. OutcomeUnknownError: it was killed, or ended without a
        word, at an unknown place (I6).
    """
    return _run(settings, pipeline, _arguments(work), started_by, listen, log)


def submit_job(settings: Settings, pipeline: str, work: BatchKey | RunPlan, started_by: str) -> ClusterJob | None:
    """Starts the job as `run_job` does, without waiting for it; None where the runner does not allow that."""
    if not settings.has_cluster_drivers:
        return None
    return ClusterJob.submit(settings, pipeline, _arguments(work), started_by)


def run_backfill(
    settings: Settings, pipeline: str, number: int, started_by: str, listen: Listen, log: Log
) -> list[dict[str, Any]]:
    """Runs all chunks of a planned backfill in one session. Returns and raises as `run_job` does."""
    return _run(settings, pipeline, ["--backfill", str(number)], started_by, listen, log)


def run_swap(settings: Settings, pipeline: str, number: int, started_by: str, log: Log) -> None:
    """Puts a backfill's table in the target's place. Raises as `run_job` does."""
    _run(settings, pipeline, ["--swap", str(number)], started_by, lambda fact: None, log)


def run_maintenance(settings: Settings, pipeline: str, listen: Listen, log: Log) -> dict[str, Any]:
    """Keeps a pipeline's tables in shape; returns what was won (see `spark_jobs.maintenance`). Raises as `run_job`."""
    [report] = _run(settings, pipeline, ["--maintain"], "maintenance", listen, log)
    return report


def run_check(settings: Settings, pipeline: str, version: int | None, listen: Listen, log: Log) -> dict[str, Any]:
    """Judges the target by its own suite (see `spark_jobs.checks`); None: the newest version. Raises as `run_job`."""
    what = ["--check", *(() if version is None else ("--table-version", str(version)))]
    [found] = _run(settings, pipeline, what, "check", listen, log)
    return found


def run_query(settings: Settings, pipeline: str, sql: str, log: Log) -> list[dict[str, Any]]:
    """Asks the view `fresh` of a pipeline (see `spark_jobs.fresh`); returns rows. Raises as `run_job` does."""
    [found] = _run(settings, pipeline, ["--query", sql], "cli", lambda fact: None, log)
    return found["rows"]


def create_target(settings: Settings, pipeline: str, log: Log) -> None:
    """Makes the target's table, empty, if there is none. Raises as `run_job` does."""
    _run(settings, pipeline, ["--create-target"], "cli", lambda fact: None, log)


def _arguments(work: BatchKey | RunPlan | None) -> list[str]:
    match work:
        case RunPlan(first, until):
            return [*_arguments(first), "--until", offsets_as_argument(until)]
        case BatchKey(generation, batch_id):
            return ["--generation", str(generation), "--batch", str(batch_id)]
        case None:
            return ["--until-caught-up"]


def _run(
    settings: Settings, pipeline: str, what: list[str], started_by: str, listen: Listen, log: Log
) -> list[dict[str, Any]]:
    if settings.has_cluster_drivers:
        return _wait_for(ClusterJob.submit(settings, pipeline, what, started_by), listen, log)
    report = JobReport(f"{pipeline} {' '.join(what)}", listen, log)
    spark = spark_command(settings, ["--pipeline", pipeline, *what, "--started-by", started_by])
    process = subprocess.Popen(
        spark.command,
        cwd=PROJECT_ROOT,
        env=spark.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            report.take(line)
        code = process.wait()
    finally:
        process.kill()  # a no-op after its end; else this call was interrupted, and the job must not outlive it
        process.wait()
    return report.results(_ending(code))


def _wait_for(job: ClusterJob, listen: Listen, log: Log) -> list[dict[str, Any]]:
    log(f"{job} works ...")
    report, watch = JobReport(job.about, listen, log), ClusterWatch(job)
    try:
        while True:
            state, lines = watch.look()
            for line in lines:
                report.take(line)
            if state.is_end:
                return report.results(state.ending)
            time.sleep(_LOOK_SECONDS)
    finally:
        job.end()  # as with a child: it must not outlive this call


def _end_with_parent() -> None:
    """Asks the kernel to kill this process when its parent has gone: a killed task leaves no job behind.

    Elsewhere than on Linux the orphan goes on until it ends; it can do no harm, its marker decides (I5).
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ending(code: int) -> str | None:
    if code == 0:
        return None
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
