"""Where every record of a batch went (I8)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from include.protocol.errors import CountsDisagree


@dataclass(frozen=True)
class SourceCounts:
    """What is known of a batch before its MERGE; recorded in the commit's `userMetadata`."""

    read: int  # records in the ranges
    quarantined: int
    filtered: int  # left out by a filter that the pipeline file declares
    superseded: int  # an older change than another one for the same key in this batch, or part of a newer one
    changes: int  # what MERGE gets: the newest change of each key; of history all of them
    added: int = 0  # changes beyond one per record: a row whose key changed is two, a transform makes several
    routed: int = 0  # changes that other tables have, and not the target

    def __post_init__(self) -> None:
        found = self.quarantined + self.filtered + self.superseded + self.changes + self.routed
        if found != self.read + self.added:
            raise CountsDisagree(
                what="records were lost or doubled between Kafka and the MERGE",
                where="counts of a batch",
                expected=f"{self.read} records read and {self.added} changes beyond them",
                found=f"{found} = {asdict(self)}",
                action="this is a defect of Lakemark; nothing was written, report it with this message",
            )

    def to_json(self) -> dict[str, int]:
        return _without_zeros(asdict(self))


@dataclass(frozen=True)
class BatchCounts:
    """The whole sum of a committed batch:
    read + added = applied + superseded + stale + quarantined + filtered + routed."""

    read: int
    applied: int  # rows inserted, updated or turned into tombstones; of history changes that it had not
    superseded: int
    stale: int  # an older change than the row that the table had; of history one that it had
    quarantined: int
    filtered: int
    added: int = 0
    routed: int = 0

    def to_json(self) -> dict[str, int]:
        return _without_zeros(asdict(self))


@dataclass(frozen=True)
class MergeCounts:
    """What Delta counted in a MERGE's commit."""

    source_rows: int
    inserted: int
    updated: int
    deleted: int

    @property
    def changed(self) -> int:
        return self.inserted + self.updated + self.deleted


def _without_zeros(counts: dict[str, int]) -> dict[str, int]:
    """Most pipelines never add or route: these say nothing of it."""
    return {name: number for name, number in counts.items() if number or name not in ("added", "routed")}


def account(
    source: SourceCounts,
    merge: MergeCounts,
    pipeline: str,
    where: str,
    of_history: bool = False,
    truncated: bool = False,
) -> BatchCounts:
    """Joins what the job counted with what Delta counted in the same commit.

    Args:
        of_history: MERGE got the changes that the table had not, and rows of the same keys that show something else
            for them; or else all changes, of which it applied the newer ones.
        truncated: MERGE also got the rows that a truncate of the batch deletes, and applied every one of these.
        where: names the commit in an error.

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
            action="the batch has landed and is recorded: the next run goes on behind it. But the table may hold rows "
            f"twice, most likely by another writer: `lakemark audit {pipeline} --deep` names their keys, and `lakemark "
            f"backfill {pipeline} --into-new-table` fills a new table that takes this one's place. If the table is "
            f"right, `lakemark reset {pipeline} --reason ...` puts it on record. If nobody else wrote, report this "
            "with the table's log",
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
