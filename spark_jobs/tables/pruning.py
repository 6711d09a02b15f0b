"""Finds where the keys of a batch can be in a table: a condition that lets a MERGE skip files and pages.

Every row that matches fulfils the condition, so it changes no result. Delta skips files by their statistics, Parquet
skips row groups and pages by theirs. If keys are near each other (by time, by a sequence), most of a large table is
skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file.schema_ddl import DECIMALS, WHOLE, Column
from include.pipeline_file.table_spec import TableSpec

_PRUNED_ROWS, _ROWS_PER_RECORD = 4_000_000, 50  # from here on it pays to look for ranges (docs/performance.md)
_COLUMNS_MAX = 2
_RANGES_MAX = 32
_COVERED_MAX = 0.5  # of the span from the smallest key to the greatest: ranges that cover more of it save nothing
_TEXT_MAX = 100  # characters
_RANGES = "lakemark_key_ranges"


def _number(word: str) -> Callable[[Expression], Expression] | None:
    """How a value of a type becomes a number; None for types that only have an order."""
    if word in ("DATE",):
        return lambda value: F.unix_date(value).cast("double")
    if word in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return lambda value: F.unix_micros(value).cast("double")
    if word in WHOLE or word in DECIMALS:
        return lambda value: value.cast("double")
    return None


_ORDERED = (*WHOLE, *DECIMALS, "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


def pays(rows: int, records: int) -> bool:
    """Whether it pays to look where the keys can be. It saves the reading of rows. It costs two passes over the batch,
    and a few comparisons for every row that is read.

    Args:
        rows: of the table. records: of the batch, at most.
    """
    return rows >= max(_PRUNED_ROWS, _ROWS_PER_RECORD * records)


def key_condition(changes: DataFrame, spec: TableSpec, table: str = "") -> str | None:
    """The condition in SQL; None where no key column is suitable.

    Keys are values of records, and these never become part of a statement: the condition names session variables,
    which Spark sets from the changes themselves.

    Args:
        changes: prepared and kept. table: the table's name in the condition, if any.
    """
    if spec.truncates:
        return None  # the row that remembers a truncate has no keys
    prefix = f"{table}." if table else ""
    found = [
        _of_column(changes, column, f"{prefix}{spark_name(column.name)}", f"lakemark_keys_{place}")
        for place, column in enumerate(_columns(spec))
    ]
    return " AND ".join(filter(None, found)) or None


def _columns(spec: TableSpec) -> list[Column]:
    """The key columns by which the table is clustered; else the first key, because rows often come in its order."""
    keys = [column for column in spec.columns if column.name in spec.keys and column.word in _ORDERED]
    clustered = [column for column in keys if column.name in spec.cluster_by]
    return (clustered or keys[:1])[:_COLUMNS_MAX]


def _of_column(changes: DataFrame, column: Column, name: str, variable: str) -> str | None:
    key, number = F.col(spark_name(column.name)), _number(column.word)
    bounds = [F.min(key).alias("low"), F.max(key).alias("high")]
    line = [F.min(number(key)).alias("from"), F.max(number(key)).alias("to")] if number else []
    length = F.greatest(*(F.length(end(key).cast("string")) for end in (F.min, F.max))).alias("length")
    whole = changes.agg(length, *line).first()
    if whole is None or whole["length"] is None or whole["length"] > _TEXT_MAX:
        return None  # a batch without changes; or keys so long that the table's statistics cut them short
    ranges, count = changes.agg(*bounds), 1
    if number and whole["from"] < whole["to"]:
        place = F.width_bucket(number(key), F.lit(whole["from"]), F.lit(whole["to"]), F.lit(_RANGES_MAX))
        parts = changes.groupBy(place.alias("place")).agg(*bounds, *line).localCheckpoint()
        rows = parts.select("from", "to").collect()
        if sum(r["to"] - r["from"] for r in rows) <= _COVERED_MAX * (whole["to"] - whole["from"]):
            ranges, count = parts, len(rows)
    _set(ranges, column, variable)
    within = (f"{name} BETWEEN {variable}[{n}].low AND {variable}[{n}].high" for n in range(count))
    return f"({' OR '.join(within)})"


def _set(ranges: DataFrame, column: Column, variable: str) -> None:
    """Sets a session variable to the ranges: an array of structs of low and high."""
    spark = ranges.sparkSession
    ranges.select("low", "high").createOrReplaceTempView(_RANGES)
    spark.sql(
        f"DECLARE OR REPLACE VARIABLE {variable} ARRAY<STRUCT<low: {column.type}, high: {column.type}>>"
    ).collect()
    spark.sql(f"SET VAR {variable} = (SELECT array_agg(struct(low, high)) FROM {_RANGES})").collect()
