"""Reads one attempt from Spark's event log: its SQL executions, its jobs, and what their tasks used.

The log is JSON lines, one event per line, in files that roll (`eventlog_v2_APP/events_N_APP`, zstd) or in one file per
application. Source: Spark's `EventLogFileWriters` and `JsonProtocol`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from include.profile.tags import attempt_tag, phase_in, step_in

_CHUNK_BYTES = 1 << 20
_EXECUTION = re.compile(rb'"spark\.sql\.execution\.id":\s*"(\d+)"')


@dataclass
class Execution:
    """One SQL execution. Times are milliseconds since 1970."""

    number: int
    root: int  # the execution that it is part of, or its own number
    began: int
    description: str
    phase: str | None
    step: str | None
    ended: int | None = None


@dataclass
class Job:
    """One Spark job, and what its tasks used."""

    number: int
    execution: int | None
    began: int
    phase: str | None
    step: str | None
    stages: tuple[int, ...]
    ended: int | None = None
    tasks: int = 0
    task_ms: int = 0
    cpu_ms: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    shuffled_bytes: int = 0
    spilled_bytes: int = 0


@dataclass
class AttemptEvents:
    """An attempt's executions and jobs, in the log's order."""

    executions: dict[int, Execution] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)


def attempt_events(folder: Path, attempt_id: str, since_seconds: float) -> AttemptEvents:
    """An attempt's events from the logs in a folder; empty if they have none.

    Args:
        since_seconds: when the attempt began (since 1970). Files that were last written before are not read.
    """
    for _, files in groupby(_files(folder, since_seconds), _application):
        found = _Collecting(attempt_tag(attempt_id))
        for file in files:
            for line in _lines(file):
                found.take(line)
        if found.events.executions or found.events.jobs:
            return found.events
    return AttemptEvents()


def _application(file: Path) -> Path:
    """What all files of an application share. Every application numbers its executions and jobs from 0 on."""
    return file.parent if file.parent.name.startswith("eventlog_v2_") else file


def _files(folder: Path, since_seconds: float) -> list[Path]:
    """The log's files in the order in which they were written: rolled files are numbered."""
    files = [f for f in folder.rglob("*") if f.is_file() and not f.name.startswith((".", "appstatus"))]
    young = [file for file in files if file.stat().st_mtime >= since_seconds]
    return sorted(young, key=lambda f: (str(f.parent), [int(n) for n in re.findall(r"^events_(\d+)_", f.name)], f.name))


def _lines(file: Path) -> Iterator[bytes]:
    """The whole lines of a file that may still be written: it may end within a line, or within a compressed block."""
    compression = "zstd" if file.suffix == ".zstd" else None
    rest = b""
    with pa.OSFile(str(file)) as raw, pa.input_stream(raw, compression=compression) as stream:
        while True:
            try:
                chunk = stream.read(_CHUNK_BYTES)
            except OSError:
                return
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines


class _Collecting:
    """Takes events, line by line. Most belong to other attempts, and are not even parsed."""

    def __init__(self, tag: str) -> None:
        self.events = AttemptEvents()
        self._tag = tag.encode()
        self._jobs_of_stages: dict[int, Job] = {}

    def take(self, line: bytes) -> None:
        kind = line[:120]
        if b"SQLExecutionStart" in kind:
            if self._tag in line:
                self._begin_execution(json.loads(line))
        elif b"SQLExecutionEnd" in kind:
            event = json.loads(line)
            if (execution := self.events.executions.get(event["executionId"])) is not None:
                execution.ended = event["time"]
        elif b"SparkListenerJobStart" in kind:
            if self._tag in line or self._execution_of(line) in self.events.executions:
                self._begin_job(json.loads(line))
        elif b"SparkListenerJobEnd" in kind:
            event = json.loads(line)
            if (job := self.events.jobs.get(event["Job ID"])) is not None:
                job.ended = event["Completion Time"]
        elif b"SparkListenerTaskEnd" in kind and self._jobs_of_stages:
            self._end_task(json.loads(line))

    @staticmethod
    def _execution_of(job_start: bytes) -> int | None:
        """The execution that a job is part of. Jobs that adaptive execution starts have this, but no tags."""
        found = _EXECUTION.search(job_start)
        return None if found is None else int(found[1])

    def _begin_execution(self, event: dict[str, Any]) -> None:
        number, tags = event["executionId"], " ".join(event.get("jobTags") or ())
        root = event.get("rootExecutionId")
        description = " ".join(event["description"].split())
        self.events.executions[number] = Execution(
            number=number,
            root=number if root is None else root,
            began=event["time"],
            description=description,
            phase=phase_in(tags),
            step=step_in(tags),
        )

    def _begin_job(self, event: dict[str, Any]) -> None:
        properties = event["Properties"]
        tags, execution = properties.get("spark.job.tags") or "", properties.get("spark.sql.execution.id")
        job = Job(
            number=event["Job ID"],
            execution=None if execution is None else int(execution),
            began=event["Submission Time"],
            phase=phase_in(tags),
            step=step_in(tags),
            stages=tuple(event["Stage IDs"]),
        )
        self.events.jobs[job.number] = job
        for stage in job.stages:
            self._jobs_of_stages.setdefault(stage, job)  # if a later job skips a stage, the first job did its work

    def _end_task(self, event: dict[str, Any]) -> None:
        job = self._jobs_of_stages.get(event["Stage ID"])
        metrics = event.get("Task Metrics")
        if job is None or not metrics:
            return
        shuffled = metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        job.tasks += 1
        job.task_ms += metrics["Executor Run Time"]
        job.cpu_ms += metrics["Executor CPU Time"] / 1e6
        job.read_bytes += metrics["Input Metrics"]["Bytes Read"]
        job.written_bytes += metrics["Output Metrics"]["Bytes Written"]
        job.shuffled_bytes += shuffled
        job.spilled_bytes += metrics["Disk Bytes Spilled"]


def covered_ms(spans: Iterable[tuple[int, int]]) -> int:
    """For how long at least one of the spans was running."""
    total, end = 0, -1
    for began, ended in sorted(spans):
        total += max(0, ended - max(began, end))
        end = max(end, ended)
    return total
