"""Runs the job as a child process and turns what it says into results and errors."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from include.protocol.batch import Batch, BatchKey
from include.protocol.errors import OutcomeUnknownError, error_from_facts
from include.protocol.ranges import offsets_as_argument
from include.protocol.runs import RunPlan
from include.settings import PROJECT_ROOT, Settings
from include.spark_command import spark_command

Listen = Callable[[dict[str, Any]], None]
_LAST_LINES = 30
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


def run_job(
    settings: Settings,
    pipeline: str,
    work: BatchKey | RunPlan | None,
    started_by: str,
    listen: Listen,
    log: Callable[[str], None],
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
    match work:
        case RunPlan(first, until):
            what = [*_batch(first), "--until", offsets_as_argument(until)]
        case BatchKey():
            what = _batch(work)
        case None:
            what = ["--until-caught-up"]
    return _run(settings, pipeline, what, started_by, listen, log)


def run_backfill(
    settings: Settings, pipeline: str, number: int, started_by: str, listen: Listen, log: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Runs all chunks of a planned backfill in one session. Returns and raises as `run_job` does."""
    return _run(settings, pipeline, ["--backfill", str(number)], started_by, listen, log)


def run_swap(settings: Settings, pipeline: str, number: int, started_by: str, log: Callable[[str], None]) -> None:
    """Puts a backfill's table in the target's place. Raises as `run_job` does."""
    _run(settings, pipeline, ["--swap", str(number)], started_by, lambda fact: None, log)


def run_maintenance(settings: Settings, pipeline: str, listen: Listen, log: Callable[[str], None]) -> dict[str, Any]:
    """Keeps a pipeline's tables in shape; returns what was won (see `spark_jobs.maintenance`). Raises as `run_job`."""
    [report] = _run(settings, pipeline, ["--maintain"], "maintenance", listen, log)
    return report


def create_target(settings: Settings, pipeline: str, log: Callable[[str], None]) -> None:
    """Makes the target's table, empty, if there is none. Raises as `run_job` does."""
    _run(settings, pipeline, ["--create-target"], "cli", lambda fact: None, log)


def _batch(key: BatchKey) -> list[str]:
    return ["--generation", str(key.generation), "--batch", str(key.batch_id)]


def _run(
    settings: Settings, pipeline: str, what: list[str], started_by: str, listen: Listen, log: Callable[[str], None]
) -> list[dict[str, Any]]:
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
    results: list[dict[str, Any]] = []
    failure: dict[str, Any] | None = None
    last: deque[str] = deque(maxlen=_LAST_LINES)
    try:
        for line in process.stdout:
            fact = _fact(line)
            if fact is None:
                last.append(line.rstrip())
                log(line.rstrip())
                continue
            listen(fact)
            if "result" in fact:
                results.append(fact["result"])
            elif "error" in fact:
                failure = fact
        code = process.wait()
    finally:
        process.kill()  # a no-op after its end; else this call was interrupted, and the job must not outlive it
        process.wait()
    if code == 0:
        return results
    if failure is not None:
        raise error_from_facts(failure)
    raise OutcomeUnknownError(
        what="the job ended without a word",
        where=f"{pipeline} {' '.join(what)}",
        expected="exit code 0, or an error that says what happened",
        found=f"{_ending(code)}; its last lines: {' | '.join(last) or 'none'}",
        action="nothing by hand: the next attempt settles it from the target's log first",
    )


def _end_with_parent() -> None:
    """Asks the kernel to kill this process when its parent has gone: a killed task leaves no job behind.

    Elsewhere than on Linux the orphan goes on until it ends; it can do no harm, its marker decides (I5).
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def told(fact: dict[str, Any]) -> str:
    """A line of the job's JSON, for people."""
    match fact:
        case {"progress": "planned", "batch": batch}:
            return f"batch {batch['batch_id']}: {Batch.from_json(batch).width:,} offsets"
        case {"progress": "conflict"}:
            return "another writer of the table was faster; merging again ..."
        case {"progress": phase}:
            return f"{phase} ..."
        case {"result": {"maintained": _} as report}:
            return "; ".join(maintenance_lines(report))
        case {"result": result}:
            counts = ", ".join(f"{number:,} {name}" for name, number in (result["counts"] or {}).items())
            seconds = ", ".join(f"{name} {s:.1f} s" for name, s in result["phase_seconds"].items())
            what = f"batch {result['batch_id']}"
            if result["generation"] < 0:
                what = f"backfill {-result['generation']} chunk {result['batch_id']}"
            return "; ".join(filter(None, (f"{what} {result['outcome']}", counts, seconds)))
        case _:
            return f"{fact.get('error')}: {fact.get('found')}"


def maintenance_lines(report: dict[str, Any]) -> Iterator[str]:
    """What maintenance has won, for people."""
    for role, table in report["tables"].items():
        before, after = table["before"], table["after"]
        yield (
            f"{report['maintained']} {role}: {', '.join(table['did']) or 'nothing due'}; "
            f"files {before['files']:,} to {after['files']:,}, on disk {_size(before['disk_bytes'])} to "
            f"{_size(after['disk_bytes'])}, hidden rows {before['deleted']:,} to {after['deleted']:,}"
        )
    yield from (f"removed {path}" for path in report["removed"])


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"


def _fact(line: str) -> dict[str, Any] | None:
    """A line of the job's JSON; anything else that lands on its output is a log line."""
    if not line.startswith('{"'):
        return None
    try:
        fact = json.loads(line)
    except ValueError:
        return None
    return fact if fact.keys() & {"progress", "result", "error"} else None


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
