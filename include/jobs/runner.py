"""Runs jobs where the settings say Spark is, and turns their reports into results and errors.

A job is a child process of its caller. Where a cluster runs its driver, it is a `ClusterJob`, which goes on alone.
"""

from __future__ import annotations

import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from include.jobs.cluster_job import ClusterJob, ClusterWatch, new_journal
from include.jobs.ending import end_with_parent
from include.jobs.fork import ForkedJob, can_fork, fork_job
from include.jobs.report import JobReport, Listen
from include.jobs.spark_command import spark_command
from include.lake.lines import Lines
from include.lake.stores import lines_at
from include.lake.uri import LakeUri
from include.pipeline_file import find_pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import Problem
from include.protocol.json_data import JsonObject
from include.protocol.ranges import offsets_as_argument
from include.protocol.runs import RunPlan, WholeRun, Work
from include.scratch import scratch_folder
from include.settings import PROJECT_ROOT, Settings
from include.sources.logins import connection_variables

Log = Callable[[str], None]
Child = ForkedJob | subprocess.Popen[bytes]
_LOOK_SECONDS = 1.0  # between two looks at a driver on a cluster
_CHILD_LOOK_SECONDS = 0.05  # between two looks at a child's journal, while it logs nothing
_READ_BYTES = 1 << 16


def run_job(
    settings: Settings,
    pipeline: str,
    work: Work | None,
    started_by: str,
    listen: Listen,
    log: Log,
) -> list[JsonObject]:
    """Runs the job for one batch, for a run, or until caught up (None), where the settings say Spark is.

    Args:
        listen: gets every JSON line of the job. log: gets every line that the job (and Spark) logs.

    Returns:
        The result of every batch, as data (see `spark_jobs.merge_job`).

    Raises:
        RetryableError, TerminalError: as the job reported. OutcomeUnknownError: it was killed, or ended without a
        report, at an unknown place (I6).
    """
    return _run(settings, pipeline, _arguments(work), started_by=started_by, listen=listen, log=log)


def submit_job(settings: Settings, pipeline: str, work: Work, started_by: str) -> ClusterJob | None:
    """Starts the job as `run_job` does, without waiting for it; None where the runner does not allow that."""
    if not settings.has_cluster_drivers:
        return None
    return ClusterJob.submit(settings, pipeline, _arguments(work), started_by)


def run_backfill(
    settings: Settings, pipeline: str, number: int, started_by: str, listen: Listen, log: Log
) -> list[JsonObject]:
    """Runs all chunks of a planned backfill in one session. Returns and raises as `run_job` does."""
    return _run(settings, pipeline, ["--backfill", str(number)], started_by=started_by, listen=listen, log=log)


def run_promotion(settings: Settings, pipeline: str, number: int, started_by: str, log: Log) -> None:
    """Puts a backfill's table in the target's place. Raises as `run_job` does."""
    _run(settings, pipeline, ["--promote", str(number)], started_by=started_by, listen=_ignore, log=log)


def run_maintenance(settings: Settings, pipeline: str, started_by: str, listen: Listen, log: Log) -> JsonObject:
    """Maintains a pipeline's tables; returns its report (`commands.maintenance`). Raises as `run_job`."""
    [report] = _run(settings, pipeline, ["--maintain"], started_by=started_by, listen=listen, log=log)
    return report


def run_check(settings: Settings, pipeline: str, version: int | None, listen: Listen, log: Log) -> JsonObject:
    """Checks the target by its own suite (`commands.checks`); None: the newest version. Raises as `run_job`."""
    what = ["--check", *(() if version is None else ("--table-version", str(version)))]
    [found] = _run(settings, pipeline, what, started_by="check", listen=listen, log=log)
    return found


def run_validation(settings: Settings, pipeline: str, log: Log) -> list[Problem]:
    """What Spark refuses of a valid pipeline file (`commands.validation`). Raises as `run_job`."""
    [found] = _run(settings, pipeline, ["--validate"], started_by="cli", listen=_ignore, log=log)
    return [Problem(**problem) for problem in found["problems"]]


def run_answers(settings: Settings, pipeline: str, folder: LakeUri) -> None:
    """Answers an audit's question about conditions (`commands.answers`). Raises as `run_job`."""
    what = ["--answer", str(folder)]
    _run(settings, pipeline, what, started_by="audit", listen=_ignore, log=lambda line: None)


def run_query(settings: Settings, pipeline: str, sql: str, log: Log) -> list[JsonObject]:
    """Queries the view `fresh` of a pipeline (`spark_jobs.commands.unmerged`); returns rows. Raises as `run_job`."""
    [found] = _run(settings, pipeline, ["--query", sql], started_by="cli", listen=_ignore, log=log)
    return found["rows"]


def create_target(settings: Settings, pipeline: str, log: Log) -> None:
    """Creates the target's table, empty, if there is none. Raises as `run_job` does."""
    _run(settings, pipeline, ["--create-target"], started_by="cli", listen=_ignore, log=log)


def _arguments(work: Work | None) -> list[str]:
    match work:
        case WholeRun():
            return ["--whole-run"]
        case RunPlan(first, until):
            return [*_arguments(first), "--until", offsets_as_argument(until)]
        case BatchKey(generation, batch_id):
            return ["--generation", str(generation), "--batch", str(batch_id)]
        case None:
            return ["--until-caught-up"]


def _ignore(fact: JsonObject) -> None:
    """Takes a line of the journal and does nothing: for callers that need only the end."""


def _run(
    settings: Settings, pipeline: str, what: list[str], started_by: str, listen: Listen, log: Log
) -> list[JsonObject]:
    if settings.has_cluster_drivers:
        return _wait_for(ClusterJob.submit(settings, pipeline, what, started_by), listen, log)
    report = JobReport(f"{pipeline} {' '.join(what)}", listen, log)
    logins = connection_variables(find_pipeline(pipeline, settings.pipelines, settings.environment))
    with _journal_of(settings, pipeline) as place:
        given = ["--pipeline", pipeline, *what, "--started-by", started_by, "--journal", str(place)]
        process = start_job(settings, given, logins)
        journal = lines_at(place)
        try:
            for lines in _output(process):
                _take(journal, report)
                for line in lines:
                    report.logged(line)
            code = process.wait()
            _take(journal, report)
        finally:
            process.kill()  # a no-op after its end; else this call was interrupted, and the job must not outlive it
            process.wait()
    return report.results(ending_of(code))


def start_job(settings: Settings, arguments: list[str], logins: Mapping[str, str]) -> Child:
    """Starts a job as a child: as a fork, if the job may be one and this process can.

    Args:
        logins: variables for its environment.
    """
    spark = spark_command(settings, arguments)
    environment = {**spark.environment, **logins}
    if spark.forkable is not None and can_fork():
        return fork_job(spark.forkable, environment, PROJECT_ROOT)
    return subprocess.Popen(
        spark.command,
        cwd=PROJECT_ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        preexec_fn=end_with_parent,
    )


@contextmanager
def _journal_of(settings: Settings, pipeline: str) -> Iterator[LakeUri]:
    """The place of a job's journal: on this machine in a folder that no other user may enter; in the lake if
    spark-submit starts its driver on another machine."""
    if (settings.runner, settings.spark_deploy_mode) != ("spark-submit", "cluster"):
        with scratch_folder() as folder:
            yield LakeUri(str(folder)) / "journal.jsonl"
        return
    place = new_journal(settings, pipeline)
    try:
        yield place
    finally:
        lines_at(place).remove()


def _output(process: Child) -> Iterator[list[str]]:
    """The lines that a process logs, as they come; an empty list if none came for `_CHILD_LOOK_SECONDS`."""
    assert process.stdout is not None
    rest = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], _CHILD_LOOK_SECONDS)
        new = process.stdout.read(_READ_BYTES) if ready else None
        if new == b"":
            break
        *lines, rest = (rest + (new or b"")).split(b"\n")
        yield [line.decode(errors="replace") for line in lines]
    yield [rest.decode(errors="replace")] if rest else []


def _take(journal: Lines, report: JobReport) -> None:
    for line in journal.new():
        report.said(line)


def _wait_for(job: ClusterJob, listen: Listen, log: Log) -> list[JsonObject]:
    log(f"{job} runs ...")
    report, watch = JobReport(job.about, listen, log), ClusterWatch(job)
    try:
        while True:
            state, lines = watch.look()
            for line in lines:
                report.said(line)
            if state.is_end:
                return report.results(state.ending)
            time.sleep(_LOOK_SECONDS)
    finally:
        job.end()  # as with a child: it must not outlive this call


def ending_of(code: int) -> str | None:
    """How a job with this exit code has failed; None if it has not."""
    if code == 0:
        return None
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
