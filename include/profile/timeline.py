"""Makes a batch's timeline from the ledger, Spark's event log and Delta's commit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from include.profile.event_log import AttemptEvents, Execution, Job, covered_ms

# Delta's descriptions of the parts of a MERGE, and our names for them. The first pattern that fits counts.
_PARTS = (
    (r"Compute snapshot", "snapshot"),
    (r"materialize source", "source"),
    (r"scanning files for matches", "match"),
    (r"Rewriting Deletion Vectors", "deletion vectors"),
    (r"Rewriting \d+ files|[Ww]riting (?:modified|new|inserts)", "rewrite"),
)
_NAMES = frozenset(name for _, name in _PARTS)


@dataclass(frozen=True)
class Step:
    """A part of a phase. Its times are seconds since the attempt began (Spark's own times are in milliseconds)."""

    phase: str
    name: str
    begins: float
    seconds: float  # how long it was running
    in_jobs_seconds: float  # for how much of that time a Spark job ran; the rest is planning, compiling, waiting
    jobs: int
    tasks: int
    task_seconds: float
    cpu_seconds: float
    read_bytes: int
    written_bytes: int
    shuffled_bytes: int
    spilled_bytes: int


@dataclass(frozen=True)
class Timeline:
    """One attempt at a batch."""

    seconds: float  # of the attempt
    phase_seconds: Mapping[str, float]  # as the attempt itself measured them, and settle
    steps: tuple[Step, ...]

    @property
    def jobs(self) -> int:
        return sum(step.jobs for step in self.steps)

    def to_json(self) -> dict[str, object]:
        return {
            "seconds": self.seconds,
            "phase_seconds": dict(self.phase_seconds),
            "spark_jobs": self.jobs,
            "steps": [asdict(step) for step in self.steps],
        }


def timeline(events: AttemptEvents, began: float, ended: float, phase_seconds: Mapping[str, float]) -> Timeline:
    """The timeline of an attempt.

    Args:
        began, ended: the attempt's, seconds since 1970.
    """
    steps = sorted(_steps(events, began), key=lambda step: step.begins)
    return Timeline(round(ended - began, 3), phase_seconds, tuple(steps))


def _steps(events: AttemptEvents, began: float) -> Iterator[Step]:
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    jobs: dict[tuple[str, str], list[Job]] = {}
    names = {number: _name(execution) for number, execution in events.executions.items()}
    whole = {e.root for e in events.executions.values() if e.root != e.number}
    for execution in events.executions.values():
        if execution.ended is not None and execution.number not in whole:
            spans.setdefault(names[execution.number], []).append((execution.began, execution.ended))
    for number in whole & events.executions.keys():
        parts = [e for e in events.executions.values() if e.root == number != e.number]
        commit = _after(events.executions[number], parts)
        if commit is not None and any(names[part.number][1] in _NAMES for part in parts):
            spans.setdefault((names[number][0], "commit"), []).append(commit)
    for job in events.jobs.values():
        known = names.get(job.execution) if job.execution is not None else None
        place = known or (job.phase or "none", job.step or job.phase or "other")
        jobs.setdefault(place, []).append(job)
        if place not in spans and job.ended is not None:
            spans[place] = [(job.began, job.ended)]
    for (phase, name), found in spans.items():
        of_step = jobs.get((phase, name), [])
        in_jobs = covered_ms((j.began, j.ended) for j in of_step if j.ended is not None)
        yield Step(
            phase=phase,
            name=name,
            begins=round(min(b for b, _ in found) / 1000 - began, 3),
            seconds=covered_ms(found) / 1000,
            in_jobs_seconds=in_jobs / 1000,
            jobs=len(of_step),
            tasks=sum(j.tasks for j in of_step),
            task_seconds=sum(j.task_ms for j in of_step) / 1000,
            cpu_seconds=round(sum(j.cpu_ms for j in of_step) / 1000, 3),
            read_bytes=sum(j.read_bytes for j in of_step),
            written_bytes=sum(j.written_bytes for j in of_step),
            shuffled_bytes=sum(j.shuffled_bytes for j in of_step),
            spilled_bytes=sum(j.spilled_bytes for j in of_step),
        )


def _name(execution: Execution) -> tuple[str, str]:
    """The phase and the step that an execution belongs to."""
    phase = execution.phase or "none"
    for pattern, part in _PARTS:
        if re.search(pattern, execution.description):
            return phase, part
    return phase, execution.step or phase


def _after(execution: Execution, parts: Iterable[Execution]) -> tuple[int, int] | None:
    """The time of a MERGE after its last part: the commit, and what follows it."""
    last = max((part.ended for part in parts if part.ended is not None), default=execution.began)
    return None if execution.ended is None or execution.ended <= last else (last, execution.ended)
