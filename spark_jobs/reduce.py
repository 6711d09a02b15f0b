"""Reduces a batch to the newest change of every key."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline


def latest_changes(judged: DataFrame, pipeline: Pipeline) -> DataFrame:
    """One row per key: the change with the highest change order.

    Columns: the schema's and `_lakemark`. MERGE refuses two source rows for one target row, and of two changes in a
    batch only the newer one counts.
    """
    keys = [F.col(f"row.`{name}`") for name in pipeline.change.keys]
    newest_first = Window.partitionBy(*keys).orderBy(F.col(f"row.{LINEAGE}.change_order").desc())
    return (
        judged.where(F.col("reason").isNull() & ~F.col("filtered"))
        .select("row", F.row_number().over(newest_first).alias("place"))
        .where(F.col("place") == 1)
        .select("row.*")
    )
