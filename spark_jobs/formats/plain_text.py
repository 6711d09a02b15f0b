"""Formats `csv`, a line whose fields are the columns in their order, and `string`, a text that is the only column."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, of_plain_rows

_CORRUPT = f"{LINEAGE}_corrupt"


def csv(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    written = pipeline.source.csv
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "sep": written.delimiter,
        "quote": written.quote,
        "escape": written.escape,
        "nullValue": written.null,
        "multiLine": "true",
    }
    line = F.rtrim(F.col(f"{RECORD}.value").cast("string"), F.lit("\r\n"))
    parsed = F.from_csv(line, f"{pipeline.source.schema_}, {_CORRUPT} STRING", options)
    corrupt = F.col(DECODED).isNull() | F.col(f"{DECODED}.{_CORRUPT}").isNotNull()
    return of_plain_rows(records.withColumn(DECODED, parsed), _problem(corrupt))


def string(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    [column] = pipeline.source.value_columns
    text = F.try_validate_utf8(F.col(f"{RECORD}.value").cast("string"))
    return of_plain_rows(records.withColumn(DECODED, F.struct(text.alias(column.name))), _problem(text.isNull()))


def _problem(corrupt: Column) -> Column:
    return F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).when(corrupt, UNDECODABLE)
