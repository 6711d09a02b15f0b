"""Says in changes which batch brings them, once they are kept.

Not before: a query that holds a number which is another one in every batch is compiled anew in every batch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE
from include.protocol.batch import Batch


def stamped(changes: DataFrame, batch: Batch) -> DataFrame:
    """Changes with a lineage that says the batch, too."""
    lineage = F.col(LINEAGE).withField("generation", F.lit(batch.generation))
    return changes.withColumn(LINEAGE, lineage.withField("batch_id", F.lit(batch.batch_id).cast("bigint")))


def stamped_here(changes: pa.Table, batch: Batch) -> pa.Table:
    """The same of changes in this process."""
    lineage = changes[LINEAGE].combine_chunks()
    fields = {field.name: pc.struct_field(lineage, n) for n, field in enumerate(lineage.type)}
    fields["generation"] = pa.array(np.full(len(changes), batch.generation, np.int32))
    fields["batch_id"] = pa.array(np.full(len(changes), batch.batch_id, np.int64))
    whole = pa.StructArray.from_arrays([*fields.values()], [*fields])
    return changes.set_column(changes.column_names.index(LINEAGE), LINEAGE, whole)
