"""Accounts for every record of a batch: where it went (I8)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from include.protocol.errors import CountsDisagree


@dataclass(frozen=True)
class SourceCounts:
    """What the job has counted before the MERGE; recorded in the commit's `userMetadata`."""

    read: int  # records in the ranges
    quarantined: int
    filtered: int  # left out by a filter that the pipeline file declares
    superseded: int  # older than another change of the same key in this batch, or part of a newer one
    changes: int  # given to MERGE: the newest change of each key; with history, all changes
    added: int = 0  # changes beyond one per record: a changed key makes two, a transform may make several
    routed: int = 0  # changes that go to other tables, not to the target

    def __post_init__(self) -> None:
        found = self.quarantined + self.filtered + self.superseded + self.changes + self.routed
        if found != self.read + self.added:
            raise CountsDisagree(
                what="records were lost or duplicated between Kafka and the MERGE",
                where="counts of a batch",
                expected=f"{self.read} records read and {self.added} changes beyond them",
                found=f"{found} = {asdict(self)}",
                action="this is a defect of Lakemark: report it with this message; nothing was written",
            )

    def to_json(self) -> dict[str, int]:
        return _without_zeros(asdict(self))


@dataclass(frozen=True)
class BatchCounts:
    """All counts of a committed batch:
    read + added = applied + superseded + stale + quarantined + filtered + routed."""

    read: int
    applied: int  # rows inserted, updated or turned into tombstones; with history, changes that it did not have
    superseded: int
    stale: int  # older than the row in the table; with history, changes that it already had
    quarantined: int
    filtered: int
    added: int = 0
    routed: int = 0

    def to_json(self) -> dict[str, int]:
        return _without_zeros(asdict(self))


@dataclass(frozen=True)
class MergeCounts:
    """What Delta counted in the commit of a MERGE."""

    source_rows: int
    inserted: int
    updated: int
    deleted: int

    @property
    def changed(self) -> int:
        return self.inserted + self.updated + self.deleted


def _without_zeros(counts: dict[str, int]) -> dict[str, int]:
    """Leaves `added` and `routed` out where they are zero, as they are for most pipelines."""
    return {name: number for name, number in counts.items() if number or name not in ("added", "routed")}


def account(
    source: SourceCounts,
    merge: MergeCounts,
    pipeline: str,
    where: str,
    of_history: bool = False,
    truncated: bool = False,
) -> BatchCounts:
    """Combines what the job counted with what Delta counted in the same commit.

    Args:
        where: names the commit in an error.
        of_history: MERGE got the changes that the table did not have, and the rows of the same keys that they change.
            Otherwise it got all changes and applied the newer ones.
        truncated: MERGE also got the rows that a truncate in the batch deletes, and applied all of these.

    Raises:
        CountsDisagree: the two do not describe the same rows.
    """
    also_deleted = max(0, merge.source_rows - source.changes) if truncated else 0
    given = merge.changed if of_history else source.changes + also_deleted
    applied = merge.inserted if of_history else merge.changed - also_deleted
    if merge.source_rows != given or not 0 <= applied <= source.changes:
        raise CountsDisagree(
            what="the MERGE counted other rows than the job gave it",
            where=where,
            expected=f"{given} source rows, at most {source.changes} changes applied",
            found=f"{merge.source_rows} source rows, {applied} applied",
            action="the batch has landed and is recorded: the next run continues after it. But the table may hold rows "
            "twice. Most likely another writer added them. `lakemark audit "
            f"{pipeline} --deep` names their keys, and `lakemark backfill {pipeline} --into-new-table` fills a new "
            "table that takes this one's place. If the table is right, "
            f"`lakemark reset {pipeline} --reason ...` puts that on record. If nobody else wrote to the table, report "
            "this with the table's log",
        )
    return BatchCounts(
        read=source.read,
        applied=applied,
        superseded=source.superseded,
        stale=source.changes - applied,
        quarantined=source.quarantined,
        filtered=source.filtered,
        added=source.added,
        routed=source.routed,
    )
