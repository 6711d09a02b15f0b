"""Formats `csv`, a line whose fields are the columns in their order, and `string`, a text that is the only column."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import TIMESTAMPS
from include.pipeline_file.schema_ddl import Column as SchemaColumn
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, field, of_plain_rows
from spark_jobs.formats.functions import csv_fields
from spark_jobs.formats.values import is_count, none_of, of_text

_FIELDS = f"{LINEAGE}_fields"


def csv(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    columns, unit, written = pipeline.value_columns, pipeline.source.timestamps, pipeline.source.csv
    line = F.rtrim(F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string")), F.lit("\r\n"))
    # An empty text is a line of one field.
    is_line = (line != "") | F.lit(len(columns) == 1)
    fields = csv_fields(F.when(is_line, line), written.delimiter, written.quote, written.escape)
    read = records.withColumn(_FIELDS, fields)
    is_whole = F.col(_FIELDS).isNotNull() & (F.size(_FIELDS) == len(columns))
    texts = {c.name: F.nullif(F.col(_FIELDS)[place], F.lit(written.null)) for place, c in enumerate(columns)}
    values = (of_text(texts[column.name], column, unit).alias(column.name) for column in columns)
    parsed = read.withColumn(_FIELDS, F.when(is_whole, F.col(_FIELDS))).withColumn(DECODED, F.struct(*values))
    problem = _problem(F.col(_FIELDS).isNull())
    for column in columns:
        lost = texts[column.name].isNotNull() & field(DECODED, column.name).isNull()
        problem = problem.when(lost, _not_of_type(column, texts[column.name], unit))
    return of_plain_rows(parsed, problem)


def string(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    [column] = pipeline.value_columns
    text = F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string"))
    return of_plain_rows(records.withColumn(DECODED, F.struct(text.alias(column.name))), _problem(text.isNull()))


def _not_of_type(column: SchemaColumn, text: Column, unit: str | None) -> Column:
    """Why a text does not fit a column, string."""
    reason = F.lit(none_of(column))
    if column.word not in TIMESTAMPS or unit is not None:
        return reason
    unknown = f"column {column.name} is a number, and source.timestamps does not say what it counts"
    return F.when(is_count(text), unknown).otherwise(reason)


def _problem(corrupt: Column) -> Column:
    return F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).when(corrupt, UNDECODABLE)
