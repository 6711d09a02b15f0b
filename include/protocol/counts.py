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
    superseded: int  # an older change than another one for the same key in this batch
    changes: int  # the newest change of each key: what MERGE gets

    def __post_init__(self) -> None:
        found = self.quarantined + self.filtered + self.superseded + self.changes
        if found != self.read:
            raise CountsDisagree(
                what="records were lost or doubled between Kafka and the MERGE",
                where="counts of a batch",
                expected=f"{self.read} records read",
                found=f"{found} = {asdict(self)}",
                action="this is a defect of Lakemark; nothing was written, report it with this message",
            )

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class BatchCounts:
    """The whole sum of a committed batch: read = applied + superseded + stale + quarantined + filtered."""

    read: int
    applied: int  # rows inserted, updated or turned into tombstones
    superseded: int
    stale: int  # an older change than the row that the table had
    quarantined: int
    filtered: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def account(source: SourceCounts, merge_source_rows: int, applied: int, where: str) -> BatchCounts:
    """Joins what the job counted with what Delta counted in the same commit.

    Args:
        merge_source_rows: Delta's `numSourceRows`. applied: Delta's rows inserted + updated + deleted.
        where: names the commit in an error.

    Raises:
        CountsDisagree: the two do not describe the same rows.
    """
    if merge_source_rows != source.changes or not 0 <= applied <= source.changes:
        raise CountsDisagree(
            what="the MERGE counted other rows than the job gave it",
            where=where,
            expected=f"{source.changes} source rows, at most as many of them applied",
            found=f"{merge_source_rows} source rows, {applied} applied",
            action="the table may hold rows twice or miss some: keep the table's log and report this",
        )
    return BatchCounts(
        read=source.read,
        applied=applied,
        superseded=source.superseded,
        stale=source.changes - applied,
        quarantined=source.quarantined,
        filtered=source.filtered,
    )
