"""Both engines make the same rows, to the bit: for every type, in every column and as a key, for every reader."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upkeep import keep_quick
from include.lake.sql import spark_name
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from spark_jobs.engine.rows import collected
from spark_jobs.engine.session import fit
from tests.support.commits import land
from tests.support.readers import opened

# Of each type: how Spark calls it, and some values that are easily got wrong.
TYPES: dict[str, tuple[str, list[Any]]] = {
    "flag": ("BOOLEAN", [True, False]),
    "tiny": ("TINYINT", [-128, 0, 127]),
    "small": ("SMALLINT", [-32768, 5]),
    "number": ("INT", [-(2**31), 2**31 - 1]),
    "big": ("BIGINT", [-(2**63), 2**63 - 1, 0]),
    "single": ("FLOAT", [-0.0, 0.0, float("nan"), float("inf"), 1.5]),
    "double": ("DOUBLE", [-0.0, 0.0, float("nan"), float("-inf"), 0.1, 5e-324]),
    "exact": ("DECIMAL(38, 18)", [Decimal("-12345678901234567890.123456789012345678"), Decimal("1e-18"), Decimal(0)]),
    "price": ("DECIMAL(9, 2)", [Decimal("9999999.99"), Decimal("-0.01")]),
    "day": ("DATE", [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    "at": (
        "TIMESTAMP",
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1582, 10, 10, 1, 2, 3, 4, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ],
    ),
    "local": ("TIMESTAMP_NTZ", [datetime(1, 1, 1), datetime(1883, 11, 18, 12, 3, 57, 1), datetime(9999, 12, 31)]),
    "text": ("STRING", ["", "ü\U0010ffff", "x" * 100, 'it\'s \\ "q"', "\x00"]),
    "bytes": ("BINARY", [b"", b"\x00\xff", b"y" * 100]),
    "order": ("ARRAY<INT>", [[], [1, None, 3]]),
    "Größe": ("MAP<STRING, DOUBLE>", [{}, {"a": -0.0, "b": None}, {"": float("nan")}]),
    "part": ("STRUCT<a: INT, b: STRUCT<c: STRING>>", [{"a": None, "b": None}, {"a": 1, "b": {"c": "z"}}]),
}
_NO_KEYS = {"order", "Größe", "part", "flag"}


def value(name: str, number: int, chance: random.Random) -> Any:
    """One of some hundred values."""
    special = TYPES[name][1]
    if number < len(special):
        return special[number]
    base = special[-1]
    match base:
        case bool():
            return bool(number % 2)
        case int():
            return number % 100
        case float():
            return number / 8
        case Decimal():
            return Decimal(number)
        case datetime():
            return datetime(1900 + number, 1, 1, 0, 0, 0, number, tzinfo=base.tzinfo) + timedelta(days=number)
        case date():
            return date(1600 + number, 1, 1)
        case str():
            return f"k{number}"
        case bytes():
            return f"k{number}".encode()
    return chance.choice(special)


def spec_of(keys: list[str], order: str) -> TableSpec:
    schema = ", ".join(f"{spark_name(name)} {type_}" for name, (type_, _) in TYPES.items())
    sections = {
        "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": schema},
        "change": {"keys": keys, "order_by": [order]},
        "target": {"table": "lake://silver/p"},
    }
    return TableSpec.of_target(Pipeline.model_validate({"name": "p", **sections}))


def changes(spark: SparkSession, keys: list[str], order: str, first: int, chance: random.Random) -> DataFrame:
    """A batch as the MERGE gets it: one row per key."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for offset in range(first, first + 60):
        row: dict[str, Any] = {
            name: None
            if name not in (*keys, order) and chance.random() < 0.2
            else value(name, chance.randrange(40), chance)
            for name in TYPES
        }
        row["_lakemark"] = {
            "generation": 1,
            "batch_id": first // 60,
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "deleted": chance.random() < 0.1,
        }
        rows[tuple(repr(0.0 if row[key] == 0 else row[key]) for key in keys)] = row
    types = ", ".join(f"{spark_name(name)}: {type_}" for name, (type_, _) in TYPES.items())
    lineage = (
        "STRUCT<generation: INT, batch_id: BIGINT, topic: STRING, partition: INT, offset: BIGINT, deleted: BOOLEAN>"
    )
    return spark.createDataFrame(list(rows.values()), f"STRUCT<{types}, _lakemark: {lineage}>").localCheckpoint()


def batch_of(number: int, source: int) -> CommitMetadata:
    batch = Batch("p", 1, number, (OffsetRange("t", 0, number * 60, number * 60 + 60),), {"t": "i"}, "c")
    return CommitMetadata.of(batch, "target", SourceCounts(60, 0, 0, 60 - source, source), {}, "a", "v")


def as_seen(rows: pa.Table) -> list[str]:
    """All rows, to the bit, in an order that depends on them alone."""
    return sorted(repr(row) for row in rows.to_pylist(maps_as_pydicts="strict"))


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (["big"], "double"),  # -0.0, NaN and infinity among the orders
        pytest.param(["text", "exact"], "at", marks=pytest.mark.slow),
        *(pytest.param([name], "big", marks=pytest.mark.slow) for name in TYPES if name not in {*_NO_KEYS, "big"}),
        *(
            pytest.param(["number"], name, marks=pytest.mark.slow)
            for name in TYPES
            if name not in {*_NO_KEYS, "number", "double"}
        ),
    ],
    ids=lambda names: names if isinstance(names, str) else "+".join(names),
)
def test_i9_both_engines_make_the_same_rows_to_the_bit(
    spark: SparkSession, tmp_path: Path, keys: list[str], order: str
) -> None:
    chance, spec = random.Random(f"{keys} {order}"), spec_of(keys, order)
    tables = {engine: LakeUri(str(tmp_path / engine)) for engine in ("lane", "spark", "in turns")}
    fit(spark, 0, 0)
    for number in range(4):
        rows = changes(spark, keys, order, number * 60, chance)
        metadata = batch_of(number, rows.count())
        for engine, uri in tables.items():
            by_lane = engine == "lane" or (engine == "in turns" and chance.random() < 0.5)
            land(spark, uri, rows, spec, metadata, by_lane=by_lane and number > 0)
        keep_quick(Snapshot.of(tables["lane"]), ())
    by_spark = {engine: spark.read.format("delta").load(str(uri)) for engine, uri in tables.items()}
    seen = {engine: as_seen(collected(frame)) for engine, frame in by_spark.items()}
    assert seen["lane"] == seen["spark"] == seen["in turns"]
    assert len(seen["lane"]) > 30
    for uri in tables.values():
        others = pa.table(QueryBuilder().register("t", opened(uri)).execute("SELECT * FROM t").read_all())
        assert as_seen(others.select(by_spark["lane"].columns)) == seen["lane"]
    # Files that statistics leave out hold none of these keys. (A literal of a day before 1582 is another day in Spark.)
    key, seen_keys = spark_name(keys[0]), 0
    for row in by_spark["spark"].select(key).distinct().limit(4).collect():
        found = {
            engine: frame.where(frame[key].eqNullSafe(F.lit(row[0]))).count() for engine, frame in by_spark.items()
        }
        assert len({*found.values()}) == 1, (row, found)
        seen_keys += found["spark"]
    assert seen_keys > 0
