"""Says where a change belongs: its order, its lineage, its old keys, from when it is valid, and its route."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, OrderField, Pipeline
from include.pipeline_file.debezium import INSTANTS
from spark_jobs.changes.conditions import is_true
from spark_jobs.changes.dispositions import ALL_TABLES
from spark_jobs.formats.contract import POSITION, PREVIOUS, RECORD, field
from spark_jobs.formats.moments import moment

DELETED = f"{LINEAGE}_deleted"  # boolean: the change deletes its row
BARE = f"{LINEAGE}_bare"  # boolean: the change deletes a key and holds nothing else
TAKES = f"{LINEAGE}_takes"  # array: the answer of every route's condition, as `conditions.asked` gives it


def lineage_of(pipeline: Pipeline) -> Column:
    """The struct that says which record a row's present state comes from, and what of its order no column says (I9).

    It does not say the batch: a query with a number that is another one in every batch is compiled for every batch.
    """
    order = [_position(field).alias(field.name) for field in pipeline.order if field.of != "column"]
    return F.struct(
        *(F.col(f"{RECORD}.{name}").alias(name) for name in ("topic", "partition", "offset")),
        *([F.struct(*order).alias("change_order")] if order else []),
        F.col(DELETED).alias("deleted"),
    ).alias(LINEAGE)


def moved_from(pipeline: Pipeline) -> Column:
    """A struct of the row's old keys, if the change changes any of them; else null."""
    keys, named = pipeline.change.keys, pipeline.change.previous_keys
    if named:
        before = {key: F.col(spark_name(column)) for key, column in named.items()}
    elif pipeline.moves_keys:
        columns = {column.name for column in pipeline.source.value_columns}
        before = {key: F.col(PREVIOUS)[key] for key in keys if key in columns}
    else:
        before = {}
    type_of = {column.name: column.type for column in pipeline.columns}
    types = ", ".join(f"{spark_name(key)}: {type_of[key]}" for key in keys)
    if not before:
        return F.lit(None).cast(f"STRUCT<{types}>")
    now = {key: F.col(spark_name(key)) for key in keys}
    old = {key: F.coalesce(before[key], now[key]) if key in before else now[key] for key in keys}
    differs = reduce(or_, (old[key] != now[key] for key in before))
    return F.when(differs, F.struct(*(value.alias(key) for key, value in old.items())))


def route_of(pipeline: Pipeline) -> Column:
    """The first route that takes a change, by its place in the pipeline file."""
    if not pipeline.target.routes:
        return F.lit(None).cast("int")
    found = F.when(F.col(BARE), ALL_TABLES)
    for place in range(len(pipeline.target.routes)):
        found = found.when(is_true(F.get(TAKES, F.lit(place))), place)
    return found


def valid_at(pipeline: Pipeline) -> Column:
    """From when the change is valid; null without history."""
    if not pipeline.keeps_history:
        return F.lit(None)
    order = pipeline.valid_from
    found = _position(order)
    if order.of != "position" or order.name not in INSTANTS:
        return found
    return moment(found, F.lit(INSTANTS[order.name]))


def order_of(pipeline: Pipeline) -> dict[str, Column]:
    """The values by which the pipeline file orders changes, by their names."""
    return {order.name: _position(order) for order in pipeline.order}


def _position(order: OrderField) -> Column:
    match order.of:
        case "kafka":
            return F.col(f"{RECORD}.timestamp")
        case "position":
            return field(POSITION, order.name)
        case "column":
            return F.col(spark_name(order.name))
        case "field":
            return F.col(".".join(map(spark_name, order.name.split("."))))
