"""Decodes records and decides what each is: a change, filtered, or set aside; and which rules it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, RESCUED, Pipeline
from include.pipeline_file.schema_ddl import Column as SchemaColumn
from include.quality.judge import Judge
from spark_jobs.changes import quality
from spark_jobs.changes.judging import (
    FILTERED,
    UNKNOWN,
    problem_of,
    reason_of,
    with_deletes,
    with_filter,
    with_routes,
)
from spark_jobs.changes.placing import BARE, lineage_of, moved_from, route_of, valid_at
from spark_jobs.formats import avro, contract, debezium_json, plain_json, plain_text, protobuf
from spark_jobs.formats.contract import ABSENT, DECODED, KIND, POSITION, PREVIOUS, PROBLEM, RECORD, field
from spark_jobs.formats.keys import of_kafkas_key, with_kafkas_key
from spark_jobs.formats.values import exactly

_FORMATS: Mapping[str, Callable[[DataFrame, Pipeline], DataFrame]] = {
    "json": plain_json.decoded,
    "debezium-json": debezium_json.decoded,
    "avro": avro.decoded,
    "debezium-avro": avro.decoded_debezium,
    "protobuf": protobuf.decoded,
    "csv": plain_text.csv,
    "string": plain_text.string,
}
_REASON, _BROKEN = f"{LINEAGE}_reason", f"{LINEAGE}_broken"


def decode(
    records: DataFrame,
    pipeline: Pipeline,
    judge: Judge | None = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """Decodes and judges records: one row each, or as many rows as the transform makes from a record.

    A suite judges records that can be decoded and are not filtered. It does not judge deletes: they carry a key and
    nothing to judge.

    Columns: key, value, topic, partition, offset, timestamp (and headers) as read; `row`, a struct of the target's
    columns and the lineage struct `_lakemark`; `absent` array<string>, columns that keep their old value (null: none);
    `moved_from`, a struct of the keys that the row had before (null: the same keys); `valid_at`, from when the change
    is valid (null without history); `route` int, the route that takes the change (null: the target; ALL_TABLES: every
    table); `reason` string, why the record is quarantined (null: it is not); `filtered` boolean; `judged` boolean,
    whether the suite judges it; `broken`, a struct of booleans, which row rules it breaks; `rules` array<string>, the
    names of these rules (null: none).
    """
    columns = [column.name for column in pipeline.columns]
    found = _FORMATS[pipeline.source.format](records.select(F.struct("*").alias(RECORD)), pipeline)
    found = with_kafkas_key(found, pipeline)
    # Conditions in the pipeline file use the columns' bare names. A schema may use the names of Kafka's own fields
    # (`key`, `timestamp` ...), so these are kept apart in a struct.
    named = found.select("*", *(value.alias(name) for name, value in _columns(pipeline).items()))
    if transform is None:
        named = with_filter(with_deletes(named, pipeline), pipeline)
    else:  # what the file says about deletes, keys and routes is about the transform's output
        filtered = with_filter(named.withColumn(BARE, F.lit(False)), pipeline)
        named = with_deletes(_transformed(filtered, pipeline, transform), pipeline)
    known = with_routes(named, pipeline).withColumn(UNKNOWN, problem_of(pipeline))
    decided = known.select("*", lineage_of(pipeline), reason_of(pipeline).alias(_REASON))
    judged = F.col(_REASON).isNull() & ~F.col(FILTERED) & ~F.col(f"{LINEAGE}.deleted")
    if judge is None:
        broken, breaks, rules, judged = F.lit(None), F.lit(None), F.lit(None).cast("array<string>"), F.lit(False)
    else:
        broken, breaks, rules = (
            quality.broken(judge, judged, F.col(ABSENT) if pipeline.partial_columns else None),
            quality.reason(judge, _BROKEN),
            quality.rules(judge, _BROKEN),
        )
    decided = decided.withColumn(_BROKEN, broken)
    found = decided.select(
        f"{RECORD}.*",
        F.struct(*map(spark_name, (*columns, LINEAGE))).alias("row"),
        F.col(ABSENT).alias("absent"),
        moved_from(pipeline).alias("moved_from"),
        valid_at(pipeline).alias("valid_at"),
        route_of(pipeline).alias("route"),
        F.coalesce(_REASON, breaks).alias("reason"),
        F.col(FILTERED).alias("filtered"),
        judged.alias("judged"),
        F.col(_BROKEN).alias("broken"),
        rules.alias("rules"),
    )
    if transform is not None:
        return _set_aside_whole(found)
    # Spark merges projections: without this it would decode a record again for every use of a decoded column.
    return found.select(F.inline(F.array(F.struct("*"))))


def _transformed(named: DataFrame, pipeline: Pipeline, transform: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Applies the transform to the rows. All other records bypass it and keep only their keys: deletes that hold a key
    only, and records that are set aside or filtered."""
    named = named.localCheckpoint(eager=False)  # otherwise both halves would decode all records
    inner = [RECORD, POSITION, KIND, ABSENT, PREVIOUS, PROBLEM, FILTERED]
    passes = F.col(PROBLEM).isNull() & (F.col(KIND) == "upsert") & ~F.col(FILTERED)
    source = {column.name: column.type for column in pipeline.source.columns}
    made = transform(named.where(passes).select(*map(spark_name, source), F.struct(*inner).alias(LINEAGE)))

    def bypassing(column: SchemaColumn) -> Column:
        if column.name not in pipeline.change.keys or column.name not in source:
            return F.lit(None).cast(column.type).alias(column.name)
        value = exactly(F.col(spark_name(column.name)), source[column.name], column, pipeline.source.timestamps)
        return value.alias(column.name)

    names = [spark_name(column.name) for column in pipeline.columns]
    rest = named.where(~passes).select(*inner, *map(bypassing, pipeline.columns))
    return made.select(f"{LINEAGE}.*", *names).union(rest)


def _set_aside_whole(found: DataFrame) -> DataFrame:
    """Sets a record aside as a whole if any of its rows is set aside: a replay makes all of its rows again."""
    of_record = Window.partitionBy("topic", "partition", "offset")
    place = F.row_number().over(of_record.orderBy(F.col("reason").asc_nulls_last()))
    reason = F.min("reason").over(of_record)
    columns = [F.col(name) for name in found.columns if name != "reason"]
    whole = found.select(*columns, reason.alias("reason"), place.alias(_BROKEN))
    return whole.where(F.col("reason").isNull() | (F.col(_BROKEN) == 1)).select(*found.columns)


def _columns(pipeline: Pipeline) -> dict[str, Column]:
    """The source's columns by name: from the value, from Kafka's key where the value has none, from Kafka's fields."""
    of_key = of_kafkas_key(pipeline)
    found = {column.name: field(DECODED, column.name) for column in pipeline.source.value_columns}
    found |= {name: F.coalesce(found[name], value) for name, value in of_key.items()}
    places = {*pipeline.change.keys, *(order.name for order in pipeline.order)}
    own = {name: _own(of, name in places) for name, of in pipeline.source.metadata.items()}
    return {**found, **own, **({RESCUED: F.col(contract.RESCUED_JSON)} if pipeline.rescues else {})}


def _own(of: str, is_place: bool) -> Column:
    """One of Kafka's own fields, or the last header of a name.

    Bytes become text. Bytes that are not UTF-8 become the replacement character, because some readers of the table
    fail on anything else.

    Args:
        is_place: the column is a key or orders changes. Then text that is not UTF-8 is null. (With replacement
            characters, two keys could become one.)
    """

    def text(value: Column) -> Column:
        return (F.try_validate_utf8 if is_place else F.make_valid_utf8)(value.cast("string"))

    part, _, name = of.partition(".")
    value = F.col(f"{RECORD}.{part}")
    if name:
        return text(F.try_element_at(F.filter(value, lambda header: header["key"] == name), F.lit(-1))["value"])
    match part:
        case "key":
            return text(value)
        case "headers":
            return F.transform(value, lambda h: F.struct(h["key"].alias("key"), text(h["value"]).alias("value")))
        case "offset":
            return value.cast("bigint")
        case _:
            return value
