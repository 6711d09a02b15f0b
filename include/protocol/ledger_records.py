"""What the ledger's events add up to for one batch, one attempt, or one backfill. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import Batch
from include.protocol.errors import LedgerConflict
from include.protocol.ledger_events import AttemptEnded, AttemptStarted, BatchCommitted
from include.protocol.participants import Positions


@dataclass(frozen=True)
class AttemptRecord:
    attempt_id: str
    host: str
    started_by: str
    outcome: str | None = None  # None: it runs, or was lost without a report
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None

    def after(self, ended: AttemptEnded) -> AttemptRecord:
        """The record after an attempt has ended, this one or another."""
        if ended.attempt_id != self.attempt_id:
            return self
        return replace(self, outcome=ended.outcome, phase_seconds=ended.phase_seconds, problem=ended.problem)


@dataclass(frozen=True)
class BatchRecord:
    batch: Batch
    attempts: tuple[AttemptRecord, ...] = ()
    commit: BatchCommitted | None = None
    stands_on: Positions = field(default_factory=dict)  # where all other tables stood when it was planned

    @property
    def last_attempt(self) -> AttemptRecord | None:
        return self.attempts[-1] if self.attempts else None

    def seconds_of(self, attempt_id: str) -> float | None:
        """How long an attempt's phases took in total; None if it has not reported."""
        phases = next((a.phase_seconds for a in self.attempts if a.attempt_id == attempt_id), {})
        return round(sum(phases.values()), 3) if phases else None

    def after(self, event: AttemptStarted | AttemptEnded | BatchCommitted) -> BatchRecord:
        """The record after `event`, which is about this batch.

        Raises:
            LedgerConflict: the event cannot follow.
        """
        match event:
            case AttemptStarted():
                started = AttemptRecord(event.attempt_id, event.host, event.started_by)
                return replace(self, attempts=(*self.attempts, started))
            case AttemptEnded():
                return replace(self, attempts=tuple(a.after(event) for a in self.attempts))
            case BatchCommitted():
                if self.commit is not None:
                    raise contradiction(event, "one commit of a batch", "a second one")
                if event.fingerprint != self.batch.fingerprint:
                    raise contradiction(event, f"fingerprint {self.batch.fingerprint}", event.fingerprint)
                return replace(self, commit=event)


@dataclass(frozen=True)
class BackfillRecord:
    backfill: Backfill
    outcome: BackfillOutcome | None = None  # None: it has not ended


def contradiction(where: object, expected: str, found: str) -> LedgerConflict:
    """The error of an event that cannot follow those before it."""
    return LedgerConflict(
        what="the ledger's events contradict each other",
        where=str(where),
        expected=expected,
        found=found,
        action="something other than Lakemark wrote the ledger, or it is damaged; the target's log is the truth: "
        "compare both with `lakemark audit NAME`; `lakemark ledger rebuild NAME` makes the ledger again from that log",
    )
