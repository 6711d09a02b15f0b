"""Decides whether an attempt may run, from the plan and the target's marker, before anything is read (I3, I4, I5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from include.protocol.batch import FENCE, Batch
from include.protocol.errors import BatchMismatch, FencedGeneration, RangeGap, TargetBehindLedger


@dataclass(frozen=True)
class Apply:
    """The batch is next: read and MERGE it."""


@dataclass(frozen=True)
class AlreadyApplied:
    """The target holds the batch: change nothing.

    `fingerprint` is "verified" if the commit's fingerprint was compared with the plan's. It is "expired" if Delta's log
    clean-up has removed the commit's metadata, so that it could not be compared.
    """

    fingerprint: Literal["verified", "expired"]


def guard(
    batch: Batch,
    marker: int | None,
    landed_fingerprint: str | None,
    current_generation: int,
    is_committed: bool = False,
) -> Apply | AlreadyApplied:
    """Decides what an attempt at `batch` may do. A chunk of a backfill follows no other batch and no generation.

    Args:
        marker: the table's marker under the batch's appId; None if there is none yet.
        landed_fingerprint: the fingerprint in the target's commit of this batch, if the log still has it.
        current_generation: the ledger's. is_committed: the ledger says that the batch has landed.

    Raises:
        FencedGeneration: the batch belongs to a generation that has ended.
        BatchMismatch: the target holds another batch under this id.
        RangeGap: an earlier batch is missing. TargetBehindLedger: the target lacks the batch, which has landed.
    """
    if marker == FENCE or (batch.generation < current_generation and not batch.is_chunk):
        raise fenced(str(batch), batch.generation)
    landed = -1 if marker is None else marker
    if landed >= batch.batch_id:
        return AlreadyApplied(verify_fingerprint(batch, landed_fingerprint))
    if is_committed:
        raise TargetBehindLedger(
            what="the target lacks a batch that the ledger says is committed",
            where=str(batch),
            expected=f"marker {batch.batch_id} or higher in the target",
            found=f"marker {marker}",
            action="the table was replaced or rolled back: bring the right one back, or "
            f"`lakemark reset {batch.pipeline} --from earliest --reason ...` fills it from Kafka again",
        )
    if landed < batch.batch_id - 1 and not batch.is_chunk:
        raise RangeGap(
            what="an earlier batch has not landed",
            where=str(batch),
            expected=f"marker {batch.batch_id - 1} in the target",
            found=f"marker {marker}",
            action=f"run the earlier batches first (`lakemark run {batch.pipeline}`); if the ledger says that they "
            "are committed, the target was replaced or rolled back: see `lakemark audit`",
        )
    return Apply()


def verify_still_planned(batch: Batch, planned: Batch) -> None:
    """Compares a batch that is about to land with what the ledger says of its key now. A ledger that was lost may have
    begun anew meanwhile.

    Raises:
        FencedGeneration: they differ.
    """
    if planned.fingerprint != batch.fingerprint:
        raise FencedGeneration(
            what="the ledger that planned this batch is gone",
            where=str(batch),
            expected=f"fingerprint {batch.fingerprint} (the attempt's)",
            found=f"fingerprint {planned.fingerprint} (the ledger's)",
            action="nothing: the runs of the new ledger continue from there",
        )


def fenced(where: str, generation: int) -> FencedGeneration:
    """The error for a batch whose generation has ended."""
    return FencedGeneration(
        what="this generation of the pipeline has ended",
        where=where,
        expected="the ledger's current generation",
        found=f"generation {generation}, ended by a reset, a skip or a rebuild",
        action="nothing: the runs of the new generation continue from the ledger",
    )


def verify_fingerprint(batch: Batch, landed: str | None) -> Literal["verified", "expired"]:
    """Compares a landed commit with the plan. Equal batch ids prove nothing, since Delta does not compare the data that
    comes with a marker.

    Raises:
        BatchMismatch: they differ.
    """
    if landed is None:
        return "expired"
    if landed != batch.fingerprint:
        raise BatchMismatch(
            what="the target holds other offset ranges under this batch id",
            where=str(batch),
            expected=f"fingerprint {batch.fingerprint} (the plan)",
            found=f"fingerprint {landed} (the target's commit)",
            action="the ledger and the target do not belong together, since one of them was restored or replaced: see "
            f"`lakemark audit {batch.pipeline}`; `lakemark ledger rebuild {batch.pipeline}` makes the ledger again "
            "from the target's commits",
        )
    return "verified"
