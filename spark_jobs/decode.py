"""Judges records: decodes them and says of each whether it is a change, filtered, or for the quarantine."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.batch import Batch

_CORRUPT = "_lakemark_corrupt"


def decode(records: DataFrame, pipeline: Pipeline, batch: Batch) -> DataFrame:
    """Records, judged.

    Columns: key, value, topic, partition, offset, timestamp as read; `row`, a struct of the schema's columns and the
    lineage struct `_lakemark`; `reason` string, why the record is quarantined (null: it is not); `filtered` boolean.
    """
    schema = f"{pipeline.source.schema_}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    decoded = records.withColumn("decoded", F.from_json(F.col("value").cast("string"), schema, options))
    columns = [F.col(f"decoded.`{column.name}`").alias(column.name) for column in pipeline.source.columns]
    # Conditions of the pipeline file speak of the columns by their bare names: let them be seen that way.
    flat = decoded.select("*", *columns)
    return flat.select(
        *("key", "value", "topic", "partition", "offset", "timestamp"),
        F.struct(*(F.col(f"`{column.name}`") for column in pipeline.source.columns), _lineage(pipeline, batch)).alias(
            "row"
        ),
        _reason(pipeline).alias("reason"),
        _filtered(pipeline).alias("filtered"),
    )


def _lineage(pipeline: Pipeline, batch: Batch) -> Column:
    """The struct that says where a row's present state comes from, and how it is ordered (I9)."""
    position = ("topic", "partition", "offset")
    order = [F.col(f"decoded.`{name}`").alias(name) for name in pipeline.change.order_by]
    delete = pipeline.change.delete_when
    return F.struct(
        F.lit(batch.generation).alias("generation"),
        F.lit(batch.batch_id).cast("bigint").alias("batch_id"),
        *(F.col(name) for name in position),
        F.struct(*order, *(F.col(name).alias(f"_{name}") for name in position)).alias("change_order"),
        (F.coalesce(F.expr(delete), F.lit(False)) if delete else F.lit(False)).alias("deleted"),
    ).alias(LINEAGE)


def _reason(pipeline: Pipeline) -> Column:
    def any_null(names: tuple[str, ...]) -> Column:
        null = F.lit(False)
        for name in names:
            null = null | F.col(f"decoded.`{name}`").isNull()
        return null

    undecodable = F.col("decoded").isNull() | F.col(f"decoded.{_CORRUPT}").isNotNull()
    return (
        F.when(F.col("value").isNull(), "null value")
        .when(undecodable, "not decodable with the declared schema")
        .when(any_null(pipeline.change.keys), f"null in a key column ({', '.join(pipeline.change.keys)})")
        .when(any_null(pipeline.change.order_by), f"null in an order column ({', '.join(pipeline.change.order_by)})")
    )


def _filtered(pipeline: Pipeline) -> Column:
    condition = pipeline.source.filter
    return ~F.coalesce(F.expr(condition), F.lit(False)) if condition else F.lit(False)
