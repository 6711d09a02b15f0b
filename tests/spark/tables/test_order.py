"""What the table holds after changes in any order: I9 on a real broker, real Spark, real Delta."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from include.lake.uri import LakeUri
from spark_jobs.changes import reduction
from spark_jobs.engine import session
from spark_jobs.tables import merging
from tests.support.world import World, as_dict, changes, newest_by_key


def test_a_drained_topic_is_the_newest_change_of_every_key(world: World) -> None:
    topic = world.topic(partitions=3)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 40}})
    some, all_ = range(12), range(50)  # `some` change three times within the first batch, and again later
    first = changes(some, 2) + changes(some, 3, "new") + changes(some, 1, "old")
    world.produce(topic, first + changes(all_, 2, "later") + changes(range(20), 1, "late"), 3)
    assert world.drain(pipeline) == 3
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert world.run_batch(pipeline) is None


def test_i9_a_batch_that_is_joined_by_hash_makes_the_same_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark joins by hash when a batch is too large to be sent to every executor."""
    monkeypatch.setattr(session, "_SMALL_RECORDS", 0)
    monkeypatch.setattr(reduction, "_BROADCAST_BYTES", 0)
    monkeypatch.setitem(session._USUAL, "spark.sql.autoBroadcastJoinThreshold", "-1")
    topic = world.topic(partitions=2)
    pipeline = world.pipeline(topic)
    for ids, seq in ((range(60), 5), (range(40, 100), 7), (range(30, 50), 3)):
        world.produce(topic, changes(ids, seq, f"at{seq}-"), 2)
        world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    counts = [record.commit.counts for record in world.coordinator(pipeline).ledger.state().batches]
    assert [(c.applied, c.stale) for c in counts] == [(60, 0), (60, 0), (0, 20)]


@pytest.mark.parametrize(
    "short",
    [
        "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 268435328 bytes of memory, got 167562509.",
        "Total size of serialized results of 4 tasks (1178.6 KiB) is bigger than spark.driver.maxResultSize (1 MiB).",
    ],
    ids=["memory", "a broadcast"],
)
def test_i9_a_merge_that_is_short_of_memory_is_done_again_by_sorting(
    world: World, monkeypatch: pytest.MonkeyPatch, short: str
) -> None:
    """Spark's error is made up: a real one takes gigabytes of records."""
    merges = []

    landing = merging.landing

    def merge(spark: SparkSession, path: LakeUri, rows: DataFrame, *more: object, **named: object) -> object:
        merges.append(rows)
        if len(merges) == 1:
            raise RuntimeError(short)
        return landing(spark, path, rows, *more, **named)

    monkeypatch.setattr(merging, "landing", merge)
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(9), 1), 1)
    assert world.drain(pipeline) == 1
    assert len(merges) == 2
    assert merges[0] is not merges[1]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


def test_i9_order_decides_and_a_delete_leaves_a_tombstone(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, change={"delete_when": "op = 'd'"})
    for record in (
        *changes(range(3), 5),
        *changes(range(1), 8, op="d"),
        *changes(range(1), 7, "late"),  # older than the delete: must not bring the row back
        *changes(range(1, 2), 4, op="d"),  # an older delete: must not remove the row
        *changes(range(7, 8), 3, op="d"),  # of a key that was never seen
        *changes(range(7, 8), 2, "late"),
    ):
        world.produce(topic, [record], 1)
        world.run_batch(pipeline)
    rows = {row["id"]: row for row in world.rows(pipeline)}
    assert {i for i, row in rows.items() if row["_lakemark"]["deleted"]} == {0, 7}
    assert (rows[0]["name"], rows[0]["seq"]) == (None, 8)  # what orders a tombstone stays
    assert rows[1]["name"] == "n1"
    world.produce(topic, changes(range(1), 9, "back"), 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline))[0]["name"] == "back0"


def test_i9_kafka_order_decides_without_order_by(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, change={"order_by": []})
    world.produce(topic, changes(range(3), 9) + changes(range(3), 1, "newer"), 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent, order=None)


def test_rows_say_where_they_come_from(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(2), 5), 1)
    world.run_batch(pipeline)
    lineage = sorted((row["_lakemark"] for row in world.rows(pipeline)), key=lambda x: x["offset"])
    assert lineage[1] == {
        "generation": 1,
        "batch_id": 0,
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "deleted": False,
    }


def test_a_schema_may_use_the_names_of_kafkas_own_fields(world: World) -> None:
    topic = world.topic(partitions=1)
    schema = (
        "id BIGINT, key STRING, value INT, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, row INT"
    )
    pipeline = world.pipeline(
        topic,
        source={"schema": f"{schema}, reason STRING, filtered BOOLEAN, decoded INT", "filter": "offset < 100"},
        change={"order_by": ["timestamp"], "delete_when": "value = 0 AND reason = 'gone'"},
    )
    common = {"id": 1, "key": "k", "topic": "mine", "partition": 77, "row": 5, "filtered": True, "decoded": 3}
    first = {**common, "value": 7, "offset": 42, "timestamp": "2026-01-01T00:00:00Z", "reason": "new"}
    world.produce(topic, [first, {**first, "id": 2, "offset": 100}], 1)
    world.run_batch(pipeline)
    [row] = world.rows(pipeline)
    assert (row["topic"], row["partition"], row["offset"], row["key"], row["value"]) == ("mine", 77, 42, "k", 7)
    assert (row["_lakemark"]["topic"], row["_lakemark"]["offset"]) == (topic, 0)
    world.produce(topic, [{**first, "value": 0, "reason": "gone", "timestamp": "2026-01-02T00:00:00Z"}], 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == {}
