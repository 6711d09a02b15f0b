"""The plain readers of `audit --deep` make of every record that the job accepts the row that the job makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from include.lake.sql import sql_name
from include.pipeline_file import Pipeline
from include.sources import duckdb_records
from include.sources.kafka_records import Record as KafkaRecord
from tests.hostile.generator import CsvRecords, DebeziumRecords, JsonRecords, Record
from tests.hostile.types import FLAT, SCHEMA
from tests.support.hostile import FRESH, SEEDS, a_pipeline, decoded

RESCUE = {"on_schema_change": "rescue"}
FIXED_AND_FRESH = [*SEEDS, pytest.param(FRESH, marks=pytest.mark.slow)]


def read_twice(spark: SparkSession, pipeline: Pipeline, records: list[Record], folder: Path) -> dict[str, list[Any]]:
    """The records that the two do not read alike, by column."""
    rows = decoded(spark, pipeline, records, folder)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    own = [KafkaRecord("t", 0, place, None, record.key, record.value, None) for place, record in enumerate(records)]
    duckdb_records.load(database, pipeline, [own])
    duckdb_records.same_json(database)
    database.execute(f"CREATE TABLE read AS {duckdb_records.decoded(pipeline, 'records')}")
    kept = [row for row in rows if row["reason"] is None and not row["filtered"]]
    assert len(kept) > len(records) / 20
    found: dict[str, list[Any]] = {}
    for column in pipeline.columns:
        kind = spark.sql(f"SELECT CAST(NULL AS {column.type}) AS v").toArrow().schema.field("v").type
        values = pa.table(
            {"n": [row["offset"] for row in kept], "v": pa.array([r["row"][column.name] for r in kept], kind)}
        )
        database.register("job", values)
        mine, name = f"r.{sql_name(column.name)}", column.name
        same = (
            f"same_json({mine}) IS NOT DISTINCT FROM same_json(j.v)"
            if name == "_rescued"
            else f"{mine} IS NOT DISTINCT FROM j.v"
        )
        differing = database.execute(
            f"SELECT n, {mine}, v FROM job j JOIN read r ON r._offset = j.n WHERE r._undecodable OR NOT ({same}) "
            "ORDER BY n"
        ).fetchall()
        if differing:
            found[name] = [(records[n].value, mine, job) for n, mine, job in differing[:5]]
    return found


@pytest.mark.parametrize("seed", FIXED_AND_FRESH)
@pytest.mark.parametrize("change", [pytest.param({}, marks=pytest.mark.slow), RESCUE], ids=["json", "rescued"])
def test_json(spark: SparkSession, tmp_path: Path, seed: str, change: dict[str, str]) -> None:
    records = JsonRecords(f"{seed} {change}", SCHEMA).records(1_500)
    assert read_twice(spark, a_pipeline(SCHEMA, change, timestamps="millis"), records, tmp_path) == {}


@pytest.mark.parametrize("seed", FIXED_AND_FRESH)
@pytest.mark.parametrize("key", ["json", pytest.param("string", marks=pytest.mark.slow)])
def test_keys(spark: SparkSession, tmp_path: Path, seed: str, key: str) -> None:
    schema = {name: FLAT[name] for name in ("id", "seq", "name")}
    records = JsonRecords(f"{seed} {key}", schema, key=key).records(1_000)
    assert read_twice(spark, a_pipeline(schema, key=key), records, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", FIXED_AND_FRESH)
def test_csv(spark: SparkSession, tmp_path: Path, seed: str) -> None:
    records = CsvRecords(seed, FLAT).records(1_500)
    quoted = [b'1;2;"a;""b""";;;;;', b'"1";"2";"x\\"y\\\\z"', b'1;2;a"b']
    records += [Record(None, line + b";" * (len(FLAT) - line.count(b";") - 1)) for line in quoted]
    pipeline = a_pipeline(FLAT, format="csv", csv={"delimiter": ";"}, timestamps="millis")
    assert read_twice(spark, pipeline, records, tmp_path) == {}


@pytest.mark.parametrize("seed", FIXED_AND_FRESH)
@pytest.mark.parametrize("decimals", ["precise", pytest.param("string", marks=pytest.mark.slow)])
def test_envelopes(spark: SparkSession, tmp_path: Path, seed: str, decimals: str) -> None:
    records = DebeziumRecords(f"{seed} {decimals}", FLAT).records(1_500)
    pipeline = a_pipeline(FLAT, format="debezium-json", debezium={"timestamps": "micros", "decimals": decimals})
    assert read_twice(spark, pipeline, records, tmp_path) == {}
