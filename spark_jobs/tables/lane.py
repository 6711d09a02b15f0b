"""Writes without a statement of Spark, for small batches: `include.lake.merge`, behind the contract of writes.

Where a row depends on more than its newest change (histories, columns left out, truncates), Spark computes
the few rows that the batch meets, by the same code as in its own MERGE. The lane finds them, and commits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from include.fault_points import fault_point
from include.lake.log_store import Create
from include.lake.merge.actions import Actions, Change
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, land
from include.lake.merge.patch import Patch
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upsert import Upsert
from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_change import struct_fields, types_in
from include.pipeline_file.table_spec import AppendSpec, TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.engine.rows import collected, uploaded
from spark_jobs.tables.append import own_columns
from spark_jobs.tables.contract import Spec
from spark_jobs.tables.kinds import kind_of
from spark_jobs.tables.lineage import STAMP, lineage_fields, order_values


@dataclass(frozen=True)
class LaneWrite:
    """See `contract.Write`.

    Raises, at its commit:
        MarkerIsThereError, OvertakenError: nothing has landed. UnfitError: nothing has, and Spark has to do it.
    """

    table: Snapshot
    change: Change

    def commit(
        self, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None, create: Create | None = None
    ) -> None:
        """See `contract.Write`."""
        number = None if marker is None else Marker(metadata.batch.app_id, marker)
        decided = partial(fault_point, "lane.decided")
        land(self.table, self.change, number, metadata.dumps(), succeeds=succeeds, decided=decided, create=create)


def lane_write(
    spark: SparkSession, table: Snapshot, rows: KeptRows, spec: Spec, batch: Batch, bytes_max: int | None = None
) -> LaneWrite:
    """Adds records (`append`), or merges changes where they are newer than the table's rows (I9). A chunk also replaces
    a row from the very same record (`merging`).

    Args:
        rows: what the batch brings, as Spark's writers get it, and in this process. bytes_max: of what is needed of
            the table's rows; None: however many.
    """
    assert rows.arrow is not None, "they are few"
    if isinstance(spec, AppendSpec):
        return LaneWrite(table, Append(rows.arrow.select(own_columns(rows.arrow.column_names, spec))))
    return LaneWrite(table, _Merge(spark, rows, spec, batch=batch, bytes_max=bytes_max))


@dataclass(frozen=True)
class _Merge:
    """Changes that are merged. How depends on the columns of the version that they are merged into: since the last one,
    this process or another may have added some."""

    spark: SparkSession
    rows: KeptRows
    spec: TableSpec
    batch: Batch
    bytes_max: int | None

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        columns = types_in(table.metadata["schemaString"])
        if LINEAGE not in columns:
            raise UnfitError(f"no column {LINEAGE}")
        return self._change(columns[LINEAGE], table).over(table)

    def _change(self, lineage: str, table: Snapshot) -> Change:
        rows, spec, again = self.rows.arrow, self.spec, self.batch.is_chunk
        assert rows is not None, "they are few"
        if not _is_of_one_change(spec, lineage):
            return self._patch(rows, lineage, table)
        order = tuple(order_values(spec, lineage).values())
        return Upsert(rows, spec.keys, order, STAMP, again=again, bytes_max=self.bytes_max)

    def _patch(self, rows: pa.Table, lineage: str, table: Snapshot) -> Patch:
        spec, kind = self.spec, kind_of(self.spec)
        keys = rows.select([*spec.keys])
        if spec.truncates:  # the row without keys remembers the newest one
            keys = pa.concat_tables([keys, pa.table({f.name: pa.nulls(1, f.type) for f in keys.schema})])
        schema = StructType.fromJson(json.loads(table.metadata["schemaString"]))
        again = self.batch if self.batch.is_chunk else None

        def compute(there: pa.Table) -> pa.Table:
            found = uploaded(self.spark, there, schema)
            return collected(kind.patched(found, self.rows.frame, spec, lineage, again=again))

        # As Spark's MERGEs count: that of a history gets the rows that `spliced` has found.
        sources = len(rows) if spec.kind == "scd1" else None
        return Patch(keys, kind.identity(spec, lineage), compute, bytes_max=self.bytes_max, sources=sources)


def _is_of_one_change(spec: TableSpec, lineage: str) -> bool:
    """Whether each row is as its newest change alone says."""
    has_own_fields = struct_fields(lineage).keys() != {field.name for field in lineage_fields(spec, lineage)}
    return spec.kind == "scd1" and not spec.truncates and not spec.partial_columns and not has_own_fields
