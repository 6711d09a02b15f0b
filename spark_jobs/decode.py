"""Decodes records and judges them: whether each is a change, filtered, or for the quarantine; which rules it breaks."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.batch import Batch
from include.quality.judge import Judge
from spark_jobs import quality

# Columns that no schema of a pipeline can have taken: `_lakemark` names are Lakemark's own.
_RECORD, _DECODED, _CORRUPT = f"{LINEAGE}_record", f"{LINEAGE}_decoded", f"{LINEAGE}_corrupt"
_REASON, _FILTERED, _BROKEN = f"{LINEAGE}_reason", f"{LINEAGE}_filtered", f"{LINEAGE}_broken"


def decode(records: DataFrame, pipeline: Pipeline, batch: Batch, judge: Judge | None = None) -> DataFrame:
    """Records, decoded and judged.

    A suite judges what can be decoded and is not filtered, except deletes: they carry a key and nothing to judge.

    Columns: key, value, topic, partition, offset, timestamp as read; `row`, a struct of the schema's columns and the
    lineage struct `_lakemark`; `reason` string, why the record is quarantined (null: it is not); `filtered` boolean;
    `judged` boolean, whether the suite speaks of it; `broken`, a struct of booleans, which of its row rules it breaks;
    `rules` array<string>, their names (null: none).
    """
    schema = f"{pipeline.source.schema_}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    columns = [column.name for column in pipeline.source.columns]
    decoded = records.select(
        F.struct("*").alias(_RECORD), F.from_json(F.col("value").cast("string"), schema, options).alias(_DECODED)
    )
    # Conditions of the pipeline file speak of the schema's columns by their bare names; Kafka's own, some of which a
    # schema may use as well (`key`, `timestamp` ...), are out of their way in a struct.
    named = decoded.select(_RECORD, _DECODED, *(_column(name).alias(name) for name in columns))
    lineage = _lineage(pipeline, batch)
    decided = named.select("*", lineage, _reason(pipeline).alias(_REASON), _filtered(pipeline).alias(_FILTERED))
    judged = F.col(_REASON).isNull() & ~F.col(_FILTERED) & ~F.col(f"{LINEAGE}.deleted")
    if judge is None:
        broken, breaks, rules, judged = F.lit(None), F.lit(None), F.lit(None).cast("array<string>"), F.lit(False)
    else:
        broken, breaks, rules = (
            quality.broken(judge, judged),
            quality.reason(judge, _BROKEN),
            quality.rules(judge, _BROKEN),
        )
    decided = decided.withColumn(_BROKEN, broken)
    return decided.select(
        f"{_RECORD}.*",
        F.struct(*(F.col(f"`{name}`") for name in (*columns, LINEAGE))).alias("row"),
        F.coalesce(_REASON, breaks).alias("reason"),
        F.col(_FILTERED).alias("filtered"),
        judged.alias("judged"),
        F.col(_BROKEN).alias("broken"),
        rules.alias("rules"),
    )


def _column(name: str) -> Column:
    return F.col(f"{_DECODED}.`{name}`")


def _lineage(pipeline: Pipeline, batch: Batch) -> Column:
    """The struct that says where a row's present state comes from, and how it is ordered (I9)."""
    position = {name: F.col(f"{_RECORD}.{name}") for name in ("topic", "partition", "offset")}
    delete = pipeline.change.delete_when
    return F.struct(
        F.lit(batch.generation).alias("generation"),
        F.lit(batch.batch_id).cast("bigint").alias("batch_id"),
        *(column.alias(name) for name, column in position.items()),
        F.struct(
            *(_column(name).alias(name) for name in pipeline.change.order_by),
            *(column.alias(f"_{name}") for name, column in position.items()),
        ).alias("change_order"),
        (F.coalesce(F.expr(delete), F.lit(False)) if delete else F.lit(False)).alias("deleted"),
    ).alias(LINEAGE)


def _reason(pipeline: Pipeline) -> Column:
    def any_null(names: tuple[str, ...]) -> Column:
        null = F.lit(False)
        for name in names:
            null = null | _column(name).isNull()
        return null

    undecodable = F.col(_DECODED).isNull() | _column(_CORRUPT).isNotNull()
    keys, order_by = pipeline.change.keys, pipeline.change.order_by
    return (
        F.when(F.col(f"{_RECORD}.value").isNull(), "null value")
        .when(undecodable, "not decodable with the declared schema")
        .when(any_null(keys), f"null in a key column ({', '.join(keys)})")
        .when(any_null(order_by), f"null in an order column ({', '.join(order_by)})")
    )


def _filtered(pipeline: Pipeline) -> Column:
    condition = pipeline.source.filter
    return ~F.coalesce(F.expr(condition), F.lit(False)) if condition else F.lit(False)
