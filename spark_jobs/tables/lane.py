"""A write without Spark, for small batches: what `include.lake.merge` does, behind the contract of writes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from include.lake.merge.actions import Change
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.pipeline_file import LINEAGE
from include.pipeline_file.table_spec import AppendSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.tables.append import own_columns
from spark_jobs.tables.contract import Spec


@dataclass(frozen=True)
class LaneWrite:
    """See `contract.Write`.

    Raises, at its commit:
        MarkerIsThereError, OvertakenError: nothing has landed. UnfitError: nothing has, and Spark has to do it.
    """

    table: Snapshot
    change: Change

    def commit(self, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None) -> None:
        """See `contract.Write`."""
        number = None if marker is None else Marker(metadata.batch.app_id, marker)
        land(self.table, self.change, number, metadata.dumps(), succeeds=succeeds)


def lane_write(table: Snapshot, rows: pa.Table, spec: Spec, batch: Batch) -> LaneWrite:
    """Adds records (`append`), or merges changes where they are newer than the table's rows (I9). A chunk also replaces
    a row from the very same record (`merging`).

    Args:
        rows: what the batch brings, as Spark's writers get it.
    """
    if isinstance(spec, AppendSpec):
        return LaneWrite(table, Append(rows.select(own_columns(rows.column_names, spec))))
    upsert = Upsert(rows, spec.keys, lineage=LINEAGE, order="change_order", again=batch.is_chunk)
    return LaneWrite(table, upsert)
