"""Decides what to record when a batch is settled, from the ledger's state and the target's log."""

from __future__ import annotations

from dataclasses import dataclass

from include.protocol.batch import FENCE
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import BatchCounts, MergeCounts, account
from include.protocol.errors import CountsDisagree, FencedGeneration, LedgerBehindTarget, TargetBehindLedger
from include.protocol.guard import fenced, verify_fingerprint
from include.protocol.ledger_events import EARLIEST, FIRST_GENERATION, BatchCommitted, GenerationStarted, Rollback
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState


@dataclass(frozen=True)
class LandedCommit:
    """A batch's commit in a table's log."""

    table_version: int
    committed_at: str  # ISO 8601, UTC
    metadata: CommitMetadata
    merge: MergeCounts  # zeros if the commit is not a MERGE
    table_id: str | None = None


def counts_of(landed: LandedCommit, where: str) -> BatchCounts:
    """Where the records of a landed batch went. Raises CountsDisagree (see `account`)."""
    about = landed.metadata
    return account(
        about.counts,
        landed.merge,
        about.batch.pipeline,
        where,
        of_history=about.of_history,
        truncated=bool(about.truncated),
    )


@dataclass(frozen=True)
class Settle:
    """Record this event."""

    event: BatchCommitted
    problem: CountsDisagree | None = None  # the counts do not add up: to be raised after the event is recorded


@dataclass(frozen=True)
class AlreadySettled:
    event: BatchCommitted


@dataclass(frozen=True)
class NotLanded:
    """The target has no marker for the batch: run it (again)."""


def settle(
    record: BatchRecord, marker: int | None, landed: LandedCommit | None, rollback: Rollback | None = None
) -> Settle | AlreadySettled | NotLanded:
    """Decides what the ledger must learn about a batch.

    Args:
        marker: the target's marker for the batch's generation.
        landed: the target's commit of the batch, if its log still has it.
        rollback: what was done to the target between the batch before and this one.

    Raises:
        BatchMismatch: other ranges landed under this id. FencedGeneration: the generation has ended.
    """
    if record.commit is not None:
        return AlreadySettled(record.commit)
    batch = record.batch
    if marker == FENCE:
        raise fenced(str(batch), batch.generation)
    if marker is None or marker < batch.batch_id:
        return NotLanded()
    verify_fingerprint(batch, landed.metadata.fingerprint if landed else None)
    if landed is None:  # the marker is the truth; Delta's log clean-up has removed the rest
        return Settle(
            BatchCommitted(
                generation=batch.generation,
                batch_id=batch.batch_id,
                fingerprint=batch.fingerprint,
                table_version=None,
                committed_at=None,
                attempt_id=None,
                counts=None,
                rollback=rollback,
            )
        )
    # The batch has landed, whatever its counts say. A ledger that refused to record it could never go on.
    counts, problem = None, None
    try:
        counts = counts_of(landed, f"{batch}, version {landed.table_version}")
    except CountsDisagree as error:
        problem = error
    return Settle(
        BatchCommitted(
            generation=batch.generation,
            batch_id=batch.batch_id,
            fingerprint=landed.metadata.fingerprint,
            table_version=landed.table_version,
            committed_at=landed.committed_at,
            attempt_id=landed.metadata.attempt_id,
            counts=counts,
            quarantine_version=_quarantine_version(landed.metadata),
            attempt_seconds=record.seconds_of(landed.metadata.attempt_id),
            table_id=landed.table_id,
            quality=landed.metadata.quality,
            positions=landed.metadata.positions,
            rollback=rollback,
        ),
        problem,
    )


def _quarantine_version(metadata: CommitMetadata) -> int | None:
    """The quarantine's version with what the batch has set aside; None if that is nothing."""
    position = (metadata.positions or {}).get("quarantine")
    return position.version if position is not None and metadata.counts.quarantined else None


def rollback_between(
    known: BatchCommitted | GenerationStarted | None,
    landed: LandedCommit | None,
    restored: tuple[int, int | None] | None,
) -> Rollback | None:
    """What was done to the target between what the ledger knows last and a batch that has landed; None: nothing.

    Args:
        known: the commit of the batch before, or the generation's start.
        restored: the newest RESTORE between the two, and the version that it went back to.
    """
    if landed is None or known is None:
        return None
    if known.table_id not in (None, landed.table_id):
        return Rollback(landed.table_version, other_table=known.table_id)
    return None if restored is None else Rollback(*restored)


@dataclass(frozen=True)
class TargetView:
    """What the target's log says about a generation at one moment."""

    marker: int | None
    table_id: str
    # (version of the newest RESTORE since the last known commit, version that it restored)
    restored: tuple[int, int | None] | None
    is_fenced_before: bool = True  # it holds the fence of the generation before this one, if there was one


def verify_ledger_not_behind(pipeline: str, state: LedgerState, marker: int | None) -> None:
    """Refuses to plan with a ledger that has lost batches: their ranges would be planned again, and skipped.

    Args:
        marker: as read before `state`.

    Raises:
        LedgerBehindTarget: the target's marker names a batch that the ledger never planned (I10).
        FencedGeneration: the ledger's generation has ended in the target.
    """
    where = f"{pipeline} generation {state.generation}"
    rebuild = f"`lakemark ledger rebuild {pipeline}` makes it again from the target's own commits"
    if marker == FENCE and (state.generation, state.next_batch_id) == (FIRST_GENERATION, 0):
        raise ledger_lost(pipeline, where)
    if marker == FENCE:
        raise FencedGeneration(
            what="the target says that the ledger's generation has ended",
            where=where,
            expected="a ledger in the next generation",
            found="a fence in the target",
            action=f"if a reset, skip or rebuild was interrupted, `lakemark reset {pipeline} --reason ...` completes "
            f"it as it was decided; if the ledger was lost, or restored from a copy, {rebuild}",
        )
    if marker is not None and marker >= state.next_batch_id:
        raise LedgerBehindTarget(
            what="the target holds batches that the ledger does not know",
            where=where,
            expected=f"a marker below {state.next_batch_id}",
            found=f"marker {marker}",
            action=f"the ledger was lost or replaced: {rebuild}",
        )


def ledger_lost(pipeline: str, where: str) -> LedgerBehindTarget:
    """The error of a ledger without any batch, beside a target that has some."""
    return LedgerBehindTarget(
        what="the target has a history that the ledger does not know",
        where=where,
        expected="a ledger with the batches and generations of the target",
        found="a ledger without any batch",
        action=f"the ledger was lost: `lakemark ledger rebuild {pipeline}` makes it again from the target's own "
        "commits; or, if this is a clone that was interrupted, run the command that began it again",
    )


def verify_target_not_behind(pipeline: str, state: LedgerState, target: TargetView | None) -> None:
    """Refuses to continue with a target that does not hold what the ledger says has landed.

    A marker alone does not prove that the rows are there: Delta's RESTORE leaves markers as they are, and a table that
    replaces the target may carry the old markers.

    Args:
        target: as read after `state`; None if there is no such table.

    Raises:
        TargetBehindLedger: batches are missing, the table is another one, or it was rolled back.
    """
    where, last = f"{pipeline} generation {state.generation}", state.last_commit
    again = f"`lakemark reset {pipeline} --from earliest --reason ...` fills it from Kafka again"
    if last is None:
        _verify_begun(state, target, where, again)
        return
    marker = target.marker if target else None
    if target is None or marker is None or marker < state.committed_through:
        raise TargetBehindLedger(
            what="the target lacks batches that the ledger says are committed",
            where=where,
            expected=f"marker {state.committed_through} or higher",
            found=f"marker {marker}" if target else "no table",
            action=f"the table was replaced or rolled back: bring the right one back, or {again}",
        )
    if last.table_id not in (None, target.table_id):
        raise _another_table(where, expected=last.table_id, found=target.table_id, again=again)
    _verify_not_rolled_back(pipeline, state, target, again=again)


def _verify_begun(state: LedgerState, target: TargetView | None, where: str, again: str) -> None:
    """Checks the target of a generation in which nothing has landed yet. It may lack everything in the first one."""
    if state.generation == FIRST_GENERATION:
        return
    started = state.generations[-1] if state.generations else None
    if started is not None and started.makes_target:
        return
    if target is None or not target.is_fenced_before:
        raise TargetBehindLedger(
            what="the target lacks the end of the generation before this one",
            where=where,
            expected=f"a table with the fence of generation {state.generation - 1}",
            found="a table without it" if target else "no table",
            action=f"the table was lost or replaced: bring the right one back, or {again}",
        )
    if started is not None and started.table_id not in (None, target.table_id):
        raise _another_table(where, expected=started.table_id, found=target.table_id, again=again)
    if target.restored is not None:
        raise TargetBehindLedger(
            what="a RESTORE rolled the target back after this generation had begun",
            where=f"{where}, version {target.restored[0]}",
            expected="the rows that it began with",
            found="the rows of an earlier time",
            action=f"restore the version before that one; or {again}",
        )


def _another_table(where: str, expected: str | None, found: str | None, again: str) -> TargetBehindLedger:
    return TargetBehindLedger(
        what="the target is not the table that earlier batches landed in",
        where=where,
        expected=f"table id {expected}",
        found=f"table id {found}",
        action=f"bring the right one back; if this one is wanted, {again}",
    )


def rollback_of(state: LedgerState, target: TargetView | None) -> Rollback | None:
    """What was done to the target after the last commit, or what settle found before it; None: nothing."""
    if target is not None and target.restored is not None:
        return Rollback(*target.restored)
    return state.last_commit.rollback if state.last_commit is not None else None


def _verify_not_rolled_back(pipeline: str, state: LedgerState, target: TargetView, again: str) -> None:
    where = f"{pipeline} generation {state.generation}"
    if (rollback := rollback_of(state, target)) is None:
        return
    if rollback.other_table is not None:
        raise _another_table(where, expected=rollback.other_table, found=target.table_id, again=again)
    version, back_to = rollback.version, rollback.back_to
    first = None if back_to is None else state.first_after(back_to)
    origin = EARLIEST if first is None else first
    raise TargetBehindLedger(
        what="a RESTORE rolled the target back, which removes rows and leaves markers as they are",
        where=f"{where}, version {version}",
        expected="the rows of every committed batch",
        found=f"the rows of version {back_to}" if back_to is not None else "the rows of an earlier time",
        action=f"`lakemark reset {pipeline} --from {origin} --reason ...` applies again what was removed "
        "(changes are order-proof: the rows that are there stay as they are)",
    )
