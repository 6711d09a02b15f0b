"""Format `json`: a record's value is one JSON object, whose fields are the columns."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats.contract import DECODED, KIND, NO_VALUE, POSITION, PROBLEM, RECORD, UNDECODABLE, no_position

_CORRUPT = f"{LINEAGE}_corrupt"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    schema = f"{pipeline.source.schema_}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    value = F.col(f"{RECORD}.value")
    parsed = records.withColumn(DECODED, F.from_json(value.cast("string"), schema, options))
    undecodable = F.col(DECODED).isNull() | F.col(f"{DECODED}.{_CORRUPT}").isNotNull()
    return parsed.select(
        RECORD,
        DECODED,
        no_position().alias(POSITION),
        F.lit("upsert").alias(KIND),
        F.when(value.isNull(), NO_VALUE).when(undecodable, UNDECODABLE).alias(PROBLEM),
    )
