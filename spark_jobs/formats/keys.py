"""Key columns from Kafka's own key."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats import avro
from spark_jobs.formats.contract import RECORD, field
from spark_jobs.formats.json_row import json_row
from spark_jobs.formats.values import of_text

_KEY = f"{LINEAGE}_key"  # struct of the key columns, where the key is Avro


def with_kafkas_key(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Decoded records, with what `of_kafkas_key` needs of them."""
    if pipeline.source.key != "avro":
        return records
    keys = [column for column in pipeline.source.value_columns if column.name in pipeline.change.keys]
    return avro.with_rows(records, F.col(f"{RECORD}.key"), keys, pipeline, _KEY)


def of_kafkas_key(pipeline: Pipeline) -> Mapping[str, Column]:
    """Key columns by name; none if the pipeline file takes none from there. Null where the key does not hold one.

    A JSON key may bring its schema along, as Kafka Connect writes it: then its fields are in `payload`.
    """
    keys, key, unit = pipeline.change.keys, F.col(f"{RECORD}.key"), pipeline.source.timestamps
    types = {column.name: column.type for column in pipeline.source.value_columns if column.name in keys}
    match pipeline.source.key:
        case "string":
            text = F.try_validate_utf8(key.cast("string"))
            return {keys[0]: of_text(text, types[keys[0]], unit)}
        case "json":
            fields = ", ".join(f"`{name}`: {type_}" for name, type_ in types.items())
            within = "" if "payload" in types else f", payload: STRUCT<{fields}>"
            row = json_row(key, f"STRUCT<{fields}{within}>", unit)["row"]
            return {name: F.coalesce(row[name], row["payload"][name]) if within else row[name] for name in types}
        case "avro":
            return {name: field(_KEY, name) for name in types}
        case _:
            return {}
