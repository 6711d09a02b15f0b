"""Decodes hostile records as one batch, and compares what becomes of them with what an oracle says.

`HOSTILE_SEED=...` runs a failed test's fresh seed once more.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession

from include.pipeline_file import Pipeline
from spark_jobs.changes.decode import decode
from tests.hostile import sameness
from tests.hostile.generator import Record
from tests.hostile.oracle import Doubtful, NoRow, Row, Unclear
from tests.hostile.types import Schema, ddl

FRESH = os.environ.get("HOSTILE_SEED") or secrets.token_hex(4)
SEEDS = ["fixed"]  # fresh ones are for the slow tests
_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_SHOWN = 20  # differences


def a_pipeline(schema: Schema, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": ddl(schema), **source},
            "change": {"keys": ["id"], "order_by": ["seq"], **(change or {})},
            "target": {"table": "lake://silver/p"},
        }
    )


def decoded(spark: SparkSession, pipeline: Pipeline, records: list[Record], folder: Path) -> list[dict[str, Any]]:
    """`decode` of the records as one batch, in their order."""
    count = len(records)
    table = pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([_NOW] * count, pa.timestamp("us", "UTC")),
        }
    )
    path = folder / "records.parquet"
    pyarrow.parquet.write_table(table, path)
    found = decode(spark.read.parquet(str(path)), pipeline).select("offset", "row", "reason", "filtered")
    return sorted(found.toArrow().to_pylist(), key=lambda row: row["offset"])


def differences(
    records: list[Record], found: list[dict[str, Any]], expected: Callable[[Record], Row | None]
) -> list[tuple[Any, ...]]:
    """Records that are not what the oracle says. Raises AssertionError if records are missing, or there twice."""
    assert [row["offset"] for row in found] == list(range(len(records)))
    return [
        difference
        for record, row in zip(records, found, strict=True)
        if (difference := different(record, expected, row["row"] if row["reason"] is None else None, row["reason"]))
    ]


def different(record: Record, expected: Callable[[Record], Row | None], held: Row | None, reason: str | None) -> Any:
    """What differs from what the oracle says; None if nothing does."""
    try:
        row = expected(record)
    except Doubtful as doubt:
        if held is None:
            return None
        row = doubt.row
    except Unclear:
        return None
    except NoRow as error:
        return None if held is None else (_short(record), f"a row, but: {error}", _short(held))
    if row is None:
        return None if reason is None else (_short(record), f"set aside ({reason}), but is to be left out")
    if held is None:
        return (_short(record), f"set aside ({reason}), but is a row")
    wrong = [name for name, value in row.items() if not sameness.is_same(value, held[name])]
    return (_short(record), *((name, _short(row[name]), _short(held[name])) for name in wrong)) if wrong else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 1_500 else f"{text[:700]} ... {text[-300:]}"


def assert_same(found: list[tuple[Any, ...]]) -> None:
    shown = "\n".join(map(str, found[:_SHOWN]))
    assert not found, f"{len(found)} records are not what they say (HOSTILE_SEED={FRESH}):\n{shown}"
