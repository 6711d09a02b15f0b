"""The health of a pipeline in one word, and the reason. Pure: from what the ledger, Kafka and Airflow say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal, get_args

from include.protocol.errors import is_terminal
from include.protocol.ledger_records import AttemptRecord
from include.protocol.proofs import Looks, findings_of

State = Literal[  # worst first
    "broken",
    "failed",
    "findings",
    "retrying",
    "stale",
    "quarantine",
    "unmaintained",
    "running",
    "paused",
    "new",
    "unproven",
    "ok",
    "loading",
]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Scheduler:
    """What Airflow says about a pipeline's DAG."""

    paused: bool = False
    running: bool = False  # a run is queued or running
    failed_run: str | None = None  # the id of the newest run that has ended, if it failed
    failed_at: datetime | None = None
    note: str | None = None  # of the run that failed
    failed_dag: str | None = None  # whose run that was: the pipeline's own, or its group's

    def in_group(self, group: Scheduler) -> Scheduler:
        """The same of a pipeline in a group. It is paused with the group, and a failed run of the group has failed for
        all of its pipelines."""
        paused = self.paused or group.paused
        if self.failed_run is not None or group.failed_run is None:
            return replace(self, paused=paused)
        return replace(group, paused=paused, running=self.running or group.running)


@dataclass(frozen=True)
class SetAside:
    """What became of the newest committed batch."""

    batch_id: int
    read: int
    quarantined: int
    waiting: int  # records in the quarantine that nobody has resolved, of any batch

    def problem(self, name: str) -> str | None:
        """Why that is not good: half of the records, or more, were set aside, and nobody has looked after them."""
        if self.waiting == 0 or self.quarantined == 0 or 2 * self.quarantined < self.read:
            return None
        return (
            f"batch {self.batch_id} set {self.quarantined:,} of its {self.read:,} records aside. What to do: "
            f"`lakemark quarantine list {name}` says why; correct the source or the pipeline file, then replay or "
            "discard them"
        )


@dataclass(frozen=True)
class Health:
    state: State
    why: str = ""  # the problem, and what to do; empty if there is none


def judge(
    problem: str | None,
    attempt: AttemptRecord | None,
    committed_at: datetime | None,
    waiting_seconds: float | None,
    stale_after_seconds: float | None,
    scheduler: Scheduler,
    proofs: Mapping[str, Looks] = MappingProxyType({}),
    set_aside: SetAside | None = None,
    unmaintained: str | None = None,
    name: str = "NAME",
) -> Health:
    """The health of one pipeline.

    Args:
        problem: why the ledger cannot be read. attempt: the last one of the batch that is planned and not committed.
        committed_at: when the newest batch was committed, None if none ever was. waiting_seconds: age of the oldest
        record that is not in the table, None if unknown. stale_after_seconds: the highest age that is not stale; None:
        any age. proofs: what audits have seen of every table of the pipeline; no looks at one that was never audited.
        set_aside: how much of the newest batch is in the quarantine; None: not known.
        unmaintained: why its maintenance is overdue; None: it is not.
        name: the pipeline's, for the advice.
    """
    if problem is not None:
        return Health("broken", problem)
    failure = attempt.problem if attempt is not None else None
    fixed_since = committed_at is not None and scheduler.failed_at is not None and committed_at > scheduler.failed_at
    if scheduler.failed_run is not None and not scheduler.running and not fixed_since:
        why = scheduler.note or failure or f"run {scheduler.failed_run} failed. What to do: read its log"
        return Health("failed", why)
    if failure is not None and attempt is not None and is_terminal(attempt.outcome) and not scheduler.running:
        return Health("failed", failure)
    if found := [f"{table} {number:,}" for table, looks in proofs.items() if (number := findings_of(looks))]:
        why = f"the last audit has findings: {', '.join(found)}. What to do: `lakemark audit {name}` says what is wrong"
        return Health("findings", why)
    if failure is not None:
        return Health("retrying", failure)
    if waiting_seconds is not None and stale_after_seconds is not None:
        stale = stale_because(waiting_seconds, stale_after_seconds)
        if stale is not None:
            return Health("stale", stale)
    if set_aside is not None and (aside := set_aside.problem(name)) is not None:
        return Health("quarantine", aside)
    if unmaintained is not None:
        return Health("unmaintained", unmaintained)
    if scheduler.running:
        return Health("running")
    if scheduler.paused:
        return Health("paused", "the DAG is paused: no run starts by itself")
    if committed_at is None:
        return Health("new")
    if never := [table for table, looks in proofs.items() if not looks]:
        return Health("unproven", f"never proven: {', '.join(never)}. What to do: `lakemark audit {name}` proves it")
    return Health("ok")


def stale_because(waiting_seconds: float, stale_after_seconds: float) -> str | None:
    """Why a table is stale if its oldest waiting record has waited for so long; None if it is not stale."""
    todo = "see whether the DAG is paused, whether a run is active or has failed, and whether the pool has slots"
    return _waits_too_long("a record", waiting_seconds, stale_after_seconds, todo)


def sink_stale_because(waiting_seconds: float, stale_after_seconds: float, pipeline: str, sink: str) -> str | None:
    """Why a sink is stale if the oldest commit that it lacks is so old; None if it is not stale."""
    todo = f"`lakemark sinks status {pipeline} {sink}` says why the last delivery failed"
    return _waits_too_long("a commit", waiting_seconds, stale_after_seconds, todo)


def unmaintained_because(
    name: str, maintained_at: datetime | None, began_at: datetime, now: datetime, hours_max: int | None
) -> str | None:
    """Why a pipeline's maintenance is overdue; None: it is not.

    Args:
        maintained_at: when it last ended; None: never. began_at: when the pipeline's ledger did. hours_max: how long it
            may be away; None: for ever.
    """
    away = now - (maintained_at or began_at)
    if hours_max is None or away <= timedelta(hours=hours_max):
        return None
    since = "it last ended" if maintained_at is not None else "it has never run, and the pipeline began"
    return (
        f"maintenance is overdue: {since} {away / timedelta(hours=1):,.0f} hours ago, more than {hours_max:,}. What to "
        "do: see in Airflow whether lakemark_maintenance is paused or has failed; "
        f"`lakemark maintain {name}` does it now"
    )


def _waits_too_long(what: str, seconds: float, at_most: float, todo: str) -> str | None:
    if seconds <= at_most:
        return None
    return f"{what} has waited for {seconds:,.0f} s, more than {at_most:,.0f} s. What to do: {todo}"
