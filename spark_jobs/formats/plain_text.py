"""Formats `csv`, a line whose fields are the columns in their order, and `string`, a text that is the only column."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.schema_ddl import DECIMALS, DOUBLES, TIMESTAMPS
from include.schema_ddl import Column as SchemaColumn
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, field, of_plain_rows
from spark_jobs.formats.values import is_count, of_text

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
    schema = ", ".join(f"`{column.name}` {'STRING' if _is_ours(column) else column.type}" for column in columns)
    read = records.withColumn(_LINE, F.when(is_line, line))
    read = read.withColumn(_WIRE, F.from_csv(_LINE, f"{schema}, {_CORRUPT} STRING", options))
    texts = {column.name: field(_WIRE, column.name) for column in columns}
    values = (of_text(texts[c.name], c.type, unit) if _is_ours(c) else texts[c.name] for c in columns)
    parsed = read.withColumn(DECODED, F.struct(*(v.alias(c.name) for v, c in zip(values, columns, strict=True))))
    corrupt = F.col(_LINE).isNull() | F.col(_WIRE).isNull() | field(_WIRE, _CORRUPT).isNotNull()
    problem = _problem(corrupt)
    for column in filter(_is_ours, columns):
        lost = texts[column.name].isNotNull() & field(DECODED, column.name).isNull()
        problem = problem.when(lost, _not_of_type(column, texts[column.name], unit))
    return of_plain_rows(parsed, problem)


def string(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    [column] = pipeline.source.value_columns
    text = F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string"))
    return of_plain_rows(records.withColumn(DECODED, F.struct(text.alias(column.name))), _problem(text.isNull()))


def _is_ours(column: SchemaColumn) -> bool:
    """Whether a column is read as text, for Spark's parser would guess at its values."""
    return column.word in (*DECIMALS, *DOUBLES, *TIMESTAMPS, "DATE")


def _not_of_type(column: SchemaColumn, text: Column, unit: str | None) -> Column:
    """Why a text is none of a column's values, string."""
    reason = F.lit(f"column {column.name} is no {column.type}")
    if column.word not in TIMESTAMPS or unit is not None:
        return reason
    unknown = f"column {column.name} is a number, and source.timestamps does not say what it counts"
    return F.when(is_count(text), unknown).otherwise(reason)


def _problem(corrupt: Column) -> Column:
    return F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).when(corrupt, UNDECODABLE)
