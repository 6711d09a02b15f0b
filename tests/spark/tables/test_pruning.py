"""Where a MERGE looks for the keys of a batch: it must find each of them, and read little else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from include.pipeline_file.table_spec import TableSpec
from spark_jobs.tables import pruning
from spark_jobs.tables.pruning import key_condition
from tests.support.readers import opened
from tests.support.world import World, as_dict, changes, newest_by_key

# A type, how its values are made of a number, and whether what lies between two clusters of keys is left unread.
TYPES = [
    ("BIGINT", "id - 500000", True),
    ("SMALLINT", "CAST(id % 30000 AS SMALLINT)", True),
    ("DECIMAL(12, 2)", "CAST(id / 7 AS DECIMAL(12, 2))", True),
    ("DATE", "date_add(DATE'1066-10-14', CAST(id * 4 AS INT))", True),  # to beyond the year 9999
    ("TIMESTAMP", "timestamp_micros(id * 3600 * 1000000 + 123456)", True),
    ("STRING", "concat('it''s \\\\ ', id)", False),
]


@pytest.mark.parametrize(("type_", "value", "skips_middle"), TYPES, ids=[t[0] for t in TYPES])
def test_every_key_of_the_batch_is_within_the_condition(
    world: World, type_: str, value: str, skips_middle: bool
) -> None:
    schema = f"k {type_}, seq BIGINT"
    spec = TableSpec.of_target(world.pipeline("t", source={"schema": schema}, change={"keys": ["k"]}))
    with world.session() as spark:
        numbers = spark.range(20).union(spark.range(999_000, 999_020))
        batch = numbers.selectExpr(f"{value} AS k", "id AS seq").localCheckpoint()
        middle = spark.range(400_000, 400_010).selectExpr(f"{value} AS k", "id AS seq")
        condition = key_condition(batch, spec, "target")
        assert condition is not None
        assert batch.alias("target").where(f"NOT ({condition})").count() == 0
        if skips_middle and type_ != "SMALLINT":
            assert middle.alias("target").where(condition).count() == 0
        assert key_condition(batch.limit(0), spec) is None
        one = key_condition(batch.limit(1), spec)
        assert one is not None
        assert batch.where(one).count() == 1


def test_keys_whose_order_says_nothing_are_not_asked_for(world: World) -> None:
    with world.session() as spark:
        batch = spark.range(5).select(F.col("id").cast("double").alias("k"), F.col("id").alias("seq"))
        pipeline = world.pipeline("t", source={"schema": "k DOUBLE, seq BIGINT"}, change={"keys": ["k"]})
        assert key_condition(batch, TableSpec.of_target(pipeline)) is None
        truncated = {"truncates": "apply", "keys": ["k"], "order_by": ["source.lsn"]}
        source = {"schema": "k BIGINT, seq BIGINT", "format": "debezium-json"}
        pipeline = world.pipeline("t", source=source, change=truncated)
        assert key_condition(batch, TableSpec.of_target(pipeline)) is None


def test_i9_a_pruned_merge_makes_the_same_table_and_leaves_files_unread(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "pays", lambda rows, records: rows > 0)
    topic = world.topic(1)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 100}})
    for ids, seq in ((range(100), 5), (range(1000, 1100), 5)):
        world.produce(topic, changes(ids, seq, f"at{seq}-"), 1)
        world.drain(pipeline)
    folder = world.on_disk(world.coordinator(pipeline).tables.target)
    adds = pa.table(opened(folder).get_add_actions(flatten=True)).to_pylist()
    [elsewhere] = [folder / add["path"] for add in adds if add["min.id"] == 1000]
    aside = elsewhere.rename(tmp_path / "aside")  # who reads it finds no file
    for ids, seq in ((range(50, 150), 7), (range(90, 110), 3)):
        world.produce(topic, changes(ids, seq, f"at{seq}-"), 1)
        world.drain(pipeline)
    aside.rename(elsewhere)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    counts = [record.commit.counts for record in world.coordinator(pipeline).ledger.state().batches]
    assert [(c.applied, c.stale) for c in counts] == [(100, 0), (100, 0), (100, 0), (0, 20)]


def test_i9_no_key_becomes_part_of_a_statement(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "pays", lambda rows, records: rows > 0)
    keys = ["${env:HOME}", "${nothing}", "%a", "+49", "it's", "\\", "`", "--", ":low", "?", "innocent", "\u00e4", "{}"]
    topic = world.topic(1)
    columns = "id STRING, seq BIGINT, name STRING, op STRING"
    pipeline = world.pipeline(topic, source={"schema": columns})
    for seq in (1, 2, 3):
        for some in (keys, keys[:1], keys[1:3]):  # so that each is a bound once
            world.produce(topic, [{"id": key, "seq": seq, "name": f"at {seq}", "op": "u"} for key in some], 1)
            world.drain(pipeline)
    assert sorted((row["id"], row["seq"]) for row in world.rows(pipeline)) == sorted((key, 3) for key in keys)
    told = json.dumps(opened(world.coordinator(pipeline).tables.target).history(1), default=str)
    assert str(Path.home()) not in told
