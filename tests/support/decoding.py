"""Records as `decode` makes rows of them, without a broker."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from include.pipeline_file import Pipeline
from spark_jobs.changes.decode import decode
from tests.support.records import RECORDS

SENT_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_pipeline(schema: str, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    given = {"bootstrap_servers": "k", "topics": ["t"], "schema": schema, **source}
    decided = {"keys": ["id"], **(change or {})}
    return Pipeline.model_validate(
        {"name": "p", "source": given, "change": decided, "target": {"table": "lake://silver/p"}}
    )


def decoded(spark: SparkSession, pipeline: Pipeline, records: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Keys and values (bytes, None, or what becomes JSON) as `decode` has them, in order."""
    found = decoded_rows(spark, pipeline, records).orderBy("offset").collect()
    return [row.asDict(recursive=True) for row in found]


def decoded_rows(spark: SparkSession, pipeline: Pipeline, records: list[tuple[Any, Any]]) -> DataFrame:
    """The same, as a frame."""

    def raw(part: Any) -> bytes | None:
        return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()

    rows = [(raw(key), raw(value), "t", 0, n, SENT_AT) for n, (key, value) in enumerate(records)]
    return decode(spark.createDataFrame(rows, RECORDS), pipeline)


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row's columns, without its lineage."""
    return tuple(value for name, value in row["row"].items() if name != "_lakemark")


def shown(value: Any) -> Any:
    """A value, as the files have it."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case _:
            return value


def read(spark: SparkSession, schema: str, texts: list[str | bytes], **source: Any) -> list[tuple[str | None, Any]]:
    """For each record: why it is set aside, or its columns beside `id` (a single column: its value alone)."""
    pipeline = a_pipeline(schema, {}, **source)
    raw = [(None, text if isinstance(text, bytes) else text.encode()) for text in texts]
    found: list[tuple[str | None, Any]] = []
    for row in decoded(spark, pipeline, raw):
        values = [shown(value) for name, value in row["row"].items() if name not in ("id", "_lakemark")]
        found.append((row["reason"], None if row["reason"] else values[0] if len(values) == 1 else values))
    return found


def of_debezium(schema: str, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    return a_pipeline(schema, change, **{"format": "debezium-json", **source})


CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
