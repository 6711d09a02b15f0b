"""Takes key columns from Kafka's own key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline, schema_ddl
from spark_jobs.formats import avro, debezium_json
from spark_jobs.formats.contract import RECORD, field
from spark_jobs.formats.functions import json_row, struct_of
from spark_jobs.formats.values import of_text

_KEY = f"{LINEAGE}_key"  # struct of the key columns, where the key is an object
_PARTS = f"{LINEAGE}_key_parts"  # the fields of a JSON key, which say where the key columns are


def with_kafkas_key(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds to decoded records what `of_kafkas_key` needs."""
    keys = [column for column in pipeline.value_columns if column.name in pipeline.change.keys]
    match pipeline.source.key:
        case "avro":
            return avro.with_rows(records, F.col(f"{RECORD}.key"), keys, pipeline, name=_KEY)
        case "json":
            return _with_json(records, keys, pipeline)
        case _:
            return records


def of_kafkas_key(pipeline: Pipeline) -> Mapping[str, Column]:
    """Key columns by name; none if the pipeline file does not use Kafka's key. Null where the key lacks the column."""
    keys, key, unit = pipeline.change.keys, F.col(f"{RECORD}.key"), pipeline.source.timestamps
    columns = {column.name: column for column in pipeline.value_columns if column.name in keys}
    match pipeline.source.key:
        case "string":
            text = F.try_validate_utf8(key.cast("string"))
            return {keys[0]: of_text(text, columns[keys[0]], unit)}
        case "json" | "avro":
            return {name: field(_KEY, name) for name in columns}
        case _:
            return {}


def _with_json(records: DataFrame, keys: Sequence[schema_ddl.Column], pipeline: Pipeline) -> DataFrame:
    """Reads a JSON key. It may bring its schema along, as Kafka Connect writes it: then its fields are in `payload`.
    The columns are taken from there or from the key itself, never some from each.

    The key is read twice. The first reading only finds which fields there are, and so which part holds the columns.
    There, a field of the wrong type counts, too.
    """
    key, names = F.col(f"{RECORD}.key"), {column.name.lower() for column in keys}
    more = [name for name in ("payload", "schema") if name not in names]
    fields = ", ".join(f"{spark_name(name)}: VARIANT" for name in (*(column.name for column in keys), *more))
    parts = F.col(_PARTS)
    found = records.withColumn(_PARTS, json_row(key, f"STRUCT<{fields}>")["row"])
    bare = F.array(F.lit(False), *(parts[c.name].isNotNull() for c in keys if c.name.lower() != "schema"))
    within = parts["payload"].isNotNull() & ~F.array_contains(bare, True)
    image = F.when(within, parts["payload"].cast("binary")).otherwise(key) if "payload" in more else key
    if pipeline.source.is_debezium:
        schema = F.when(within, parts["schema"].cast("binary")) if "payload" in more else F.lit(None).cast("binary")
        row = debezium_json.key_columns(image, schema, keys, pipeline)
    else:
        row = json_row(image, struct_of(keys), pipeline.source.timestamps)["row"]
    return found.withColumn(_KEY, row).drop(_PARTS)
