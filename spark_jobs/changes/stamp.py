"""Says in rows which batch brings them, once they are kept: in columns of their own, or in fields of their lineage.

Not before: a query that holds a number which is another one in every batch is compiled anew in every batch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE
from include.protocol.batch import Batch


def stamped(rows: DataFrame, batch: Batch) -> DataFrame:
    """Rows that say the batch."""
    said = _said(batch)
    if LINEAGE not in rows.columns:
        return rows.withColumns(said)
    lineage = F.col(LINEAGE)
    for name, value in said.items():
        lineage = lineage.withField(name, value)
    return rows.withColumn(LINEAGE, lineage)


def stamped_here(rows: pa.Table, batch: Batch) -> pa.Table:
    """The same of rows in this process."""
    said = {
        "generation": pa.array(np.full(len(rows), batch.generation, np.int32)),
        "batch_id": pa.array(np.full(len(rows), batch.batch_id, np.int64)),
    }
    if LINEAGE not in rows.column_names:
        return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **said})
    lineage = rows[LINEAGE].combine_chunks()
    fields = {field.name: pc.struct_field(lineage, n) for n, field in enumerate(lineage.type)} | said
    whole = pa.StructArray.from_arrays([*fields.values()], [*fields])
    return rows.set_column(rows.column_names.index(LINEAGE), LINEAGE, whole)


def _said(batch: Batch) -> dict[str, Column]:
    return {"generation": F.lit(batch.generation), "batch_id": F.lit(batch.batch_id).cast("bigint")}
