"""Key columns from Kafka's own key."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.pipeline_file import Pipeline
from spark_jobs.formats.contract import RECORD


def of_kafkas_key(pipeline: Pipeline) -> Mapping[str, Column]:
    """Key columns by name; none if the pipeline file takes none from there. Null where the key does not hold one.

    A JSON key may bring its schema along, as Kafka Connect writes it: then its fields are in `payload`.
    """
    keys, text = pipeline.change.keys, F.col(f"{RECORD}.key").cast("string")
    types = {column.name: column.type for column in pipeline.source.columns}
    if pipeline.source.key == "string":
        return {keys[0]: text.try_cast(types[keys[0]])}
    if pipeline.source.key == "json":
        fields = ", ".join(f"`{name}` {types[name]}" for name in keys)
        parsed = F.from_json(text, f"{fields}, payload STRUCT<{fields}>")
        return {name: F.coalesce(parsed[name], parsed["payload"][name]) for name in keys}
    return {}
