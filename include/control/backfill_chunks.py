"""The progress of a backfill's chunks, from the log of the table that they land in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from include.lake.table_log import TableLog
from include.protocol.batch import FENCE, Batch
from include.protocol.errors import CountsDisagree
from include.protocol.guard import verify_fingerprint
from include.protocol.json_data import JsonObject
from include.protocol.ranges import OffsetRange
from include.protocol.settlement import LandedCommit, counts_of


@dataclass(frozen=True)
class Chunk:
    """The progress of one chunk."""

    chunk: int
    ranges: tuple[OffsetRange, ...]
    state: Literal["waiting", "landed", "cancelled"]
    table_version: int | None = None
    counts: Mapping[str, int] | None = None
    problem: CountsDisagree | None = None  # the counts of its commit do not add up

    def to_json(self) -> JsonObject:
        ranges = [r.as_argument() for r in self.ranges]
        return {"chunk": self.chunk, "ranges": ranges, "state": self.state} | {
            "table_version": self.table_version,
            "counts": self.counts,
        }


def problem_of(chunks: Iterable[Chunk]) -> CountsDisagree | None:
    """The first problem among the chunks; None if there is none."""
    return next((chunk.problem for chunk in chunks if chunk.problem is not None), None)


def chunk_of(batch: Batch, log: TableLog, commit: LandedCommit | None) -> Chunk:
    """The progress of a chunk, from its marker in the table's log and from its commit (None if the log has none).

    Raises:
        BatchMismatch: the commit is not what was planned.
    """
    marker = log.marker_of(batch)
    if marker is None or marker == FENCE:
        return Chunk(batch.batch_id, batch.ranges, "waiting" if marker is None else "cancelled")
    if commit is None:  # Delta's log clean-up has removed it; the marker stays
        return Chunk(batch.batch_id, batch.ranges, "landed")
    verify_fingerprint(batch, commit.metadata.fingerprint)
    landed = Chunk(batch.batch_id, batch.ranges, "landed", commit.table_version)
    try:
        return replace(landed, counts=counts_of(commit, str(batch)).to_json())
    except CountsDisagree as error:
        return replace(landed, problem=error)
