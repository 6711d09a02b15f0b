"""What settle records: decided from the ledger's state and what the target's log says."""

from __future__ import annotations

from dataclasses import dataclass

from include.protocol.batch import FENCE
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import account
from include.protocol.errors import LedgerBehindTarget
from include.protocol.guard import fenced, verify_fingerprint
from include.protocol.ledger_events import BatchCommitted, BatchRecord, LedgerState


@dataclass(frozen=True)
class LandedCommit:
    """A commit of a batch, as a table's log has it."""

    table_version: int
    committed_at: str  # ISO 8601, UTC
    metadata: CommitMetadata
    merge_source_rows: int  # 0 for a commit that is no MERGE
    rows_applied: int


@dataclass(frozen=True)
class Settle:
    """Record this event."""

    event: BatchCommitted


@dataclass(frozen=True)
class AlreadySettled:
    event: BatchCommitted


@dataclass(frozen=True)
class NotLanded:
    """The target has no marker of the batch: run it (again)."""


def settle(
    record: BatchRecord, marker: int | None, landed: LandedCommit | None, quarantine: LandedCommit | None
) -> Settle | AlreadySettled | NotLanded:
    """What the ledger must learn about a batch.

    Args:
        marker: the target's marker of the batch's generation.
        landed: the target's commit of the batch, if its log still has it. quarantine: the same of that table.

    Raises:
        BatchMismatch: other ranges landed under this id. CountsDisagree: the commit's numbers do not add up.
        FencedGeneration: the generation has ended.
    """
    if record.commit is not None:
        return AlreadySettled(record.commit)
    batch = record.batch
    if marker == FENCE:
        raise fenced(batch)
    if marker is None or marker < batch.batch_id:
        return NotLanded()
    verify_fingerprint(batch, landed.metadata.fingerprint if landed else None)
    if landed is None:  # the marker is the truth; Delta's log clean-up took the rest
        return Settle(BatchCommitted(batch.generation, batch.batch_id, batch.fingerprint, None, None, None, None))
    counts = account(
        landed.metadata.counts,
        landed.merge_source_rows,
        landed.rows_applied,
        f"{batch}, version {landed.table_version}",
    )
    return Settle(
        BatchCommitted(
            generation=batch.generation,
            batch_id=batch.batch_id,
            fingerprint=landed.metadata.fingerprint,
            table_version=landed.table_version,
            committed_at=landed.committed_at,
            attempt_id=landed.metadata.attempt_id,
            counts=counts,
            quarantine_version=quarantine.table_version if quarantine else None,
        )
    )


def verify_not_behind(pipeline: str, state: LedgerState, marker: int | None) -> None:
    """Refuses to plan on a ledger that has lost batches: their ranges would be planned, and skipped, again.

    Raises:
        LedgerBehindTarget: the target's marker names a batch that the ledger has never planned (I10).
    """
    if marker is not None and marker != FENCE and marker >= state.next_batch_id:
        raise LedgerBehindTarget(
            what="the target holds batches that the ledger does not know",
            where=f"{pipeline} generation {state.generation}",
            expected=f"a marker below {state.next_batch_id}",
            found=f"marker {marker}",
            action="the ledger was lost or replaced: restore it before this pipeline runs again; the ranges of "
            "every batch stand in the target's commits (docs/commit-metadata.md)",
        )
