"""Reads what a table's Delta log says of batches: markers and commit metadata. No JVM, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from include.protocol.batch import Batch, app_id
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.settlement import LandedCommit

_RECENT = 30  # commits; a settled batch is nearly always among them


@dataclass(frozen=True)
class TableLog:
    """The log of one table, as of the moment of opening."""

    table: DeltaTable

    @classmethod
    def open(cls, path: str) -> TableLog | None:
        """None when there is no such table yet."""
        try:
            return cls(DeltaTable(path))
        except TableNotFoundError:
            return None

    @property
    def version(self) -> int:
        return self.table.version()

    def marker(self, pipeline: str, generation: int) -> int | None:
        """The last batch id that the table holds of a generation, None if none."""
        return self.table.transaction_version(app_id(pipeline, generation))

    def landed(self, batch: Batch) -> LandedCommit | None:
        """The commit of a batch, newest first; None if it never landed or clean-up removed its metadata."""
        for limit in (_RECENT, None):
            for commit in self.landed_commits(batch.pipeline, batch.generation, limit):
                if commit.metadata.batch.batch_id == batch.batch_id:
                    return commit
        return None

    def landed_commits(self, pipeline: str, generation: int, limit: int | None = None) -> Iterator[LandedCommit]:
        """All commits of a generation's batches that the log still has, newest first."""
        for entry in self.table.history(limit):
            metadata = CommitMetadata.loads(entry.get("userMetadata"))
            if metadata and (metadata.batch.pipeline, metadata.batch.generation) == (pipeline, generation):
                yield _landed_commit(entry, metadata)


def _landed_commit(entry: dict[str, Any], metadata: CommitMetadata) -> LandedCommit:
    metrics = entry.get("operationMetrics") or {}

    def number(name: str) -> int:
        return int(metrics.get(name, 0))

    return LandedCommit(
        table_version=entry["version"],
        committed_at=datetime.fromtimestamp(entry["timestamp"] / 1000, UTC).isoformat(),
        metadata=metadata,
        merge_source_rows=number("numSourceRows"),
        rows_applied=number("numTargetRowsInserted") + number("numTargetRowsUpdated") + number("numTargetRowsDeleted"),
    )


def landed_and_marker(path: str, batch: Batch) -> tuple[int | None, LandedCommit | None]:
    """The marker of the batch's generation in a table, and the batch's own commit; Nones without a table."""
    log = TableLog.open(path)
    if log is None:
        return None, None
    marker = log.marker(batch.pipeline, batch.generation)
    return marker, log.landed(batch) if marker is not None and marker >= batch.batch_id else None
