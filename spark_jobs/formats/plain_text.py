"""Formats `csv`, a line whose fields are the columns in their order, and `string`, a text that is the only column."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, field, of_plain_rows
from spark_jobs.formats.values import in_text, is_lost, not_of_type, typed, wire_type

_CORRUPT, _LINE, _WIRE = (f"{LINEAGE}_{name}" for name in ("corrupt", "line", "wire"))
_FIELDS_MAX = 100_000  # of a line; Spark's parser stops the whole job at one that has more fields than it was told


def csv(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    columns, unit, written = pipeline.source.value_columns, pipeline.source.timestamps, pipeline.source.csv
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "sep": written.delimiter,
        "quote": written.quote,
        "escape": written.escape,
        "nullValue": written.null,
        "multiLine": "true",
        "maxColumns": str(_FIELDS_MAX),
    }
    text = F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string"))
    line = F.rtrim(text, F.lit("\r\n"))
    others = F.length(line) - F.length(F.replace(line, F.lit(written.delimiter), F.lit("")))
    # An empty text is a line of one field.
    is_line = (others < _FIELDS_MAX) & ((line != "") | F.lit(len(columns) == 1))
    schema = ", ".join(f"`{column.name}` {wire_type(column.type, in_text)}" for column in columns)
    read = records.withColumn(_LINE, F.when(is_line, line))
    read = read.withColumn(_WIRE, F.from_csv(_LINE, f"{schema}, {_CORRUPT} STRING", options))
    values = (typed(field(_WIRE, c.name), c.type, in_text, unit).alias(c.name) for c in columns)
    parsed = read.withColumn(DECODED, F.struct(*values))
    corrupt = F.col(_LINE).isNull() | F.col(_WIRE).isNull() | field(_WIRE, _CORRUPT).isNotNull()
    problem = _problem(corrupt)
    for column in columns:
        raw, value = field(_WIRE, column.name), field(DECODED, column.name)
        problem = problem.when(is_lost(raw, value, column.type, in_text), not_of_type(column, raw, unit))
    return of_plain_rows(parsed, problem)


def string(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    [column] = pipeline.source.value_columns
    text = F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string"))
    return of_plain_rows(records.withColumn(DECODED, F.struct(text.alias(column.name))), _problem(text.isNull()))


def _problem(corrupt: Column) -> Column:
    return F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).when(corrupt, UNDECODABLE)
