"""Kafka on its bad days, on a real broker: the right rows, or an error that says what to do. I7 above all."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

import include.sources.kafka
import spark_jobs.attempt.attempt
import spark_jobs.changes.records
from include.audit.auditor import audit
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError
from include.protocol.planning import Idle
from include.protocol.ranges import OffsetRange, TopicPartition
from include.sources.kafka import source_extent
from include.sources.kafka_records import records_of
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, changes, newest_by_key


def send(world: World, topic: str, values: list[dict[str, Any]], **options: Any) -> None:
    """Single records with keys and timestamps of their own."""
    producer = Producer({"bootstrap.servers": world.bootstrap_servers, "log_level": 0, "message.max.bytes": 20_000_000})
    failed: list[object] = []
    for value in values:
        producer.produce(
            topic,
            json.dumps(value).encode(),
            key=str(value["id"]).encode(),
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
            **options,
        )
    producer.flush()
    assert failed == []


def assert_deeply_right(world: World, pipeline: Pipeline, rows: int) -> None:
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed.rows_equal == rows


@pytest.mark.slow
def test_i7_the_broker_restarts_in_mid_read(world: World, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 200_000}})
    world.produce(topic, [{"id": n % 1000, "seq": n, "name": f"n{n}", "op": "u"} for n in range(100_000)])
    world.coordinator(pipeline).plan()
    read, broker = spark_jobs.changes.records.read_records, stack.service_pid("kafka")

    def and_the_broker_dies(*arguments: Any) -> Any:
        threading.Timer(0.4, os.kill, (broker, signal.SIGKILL)).start()
        return read(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(spark_jobs.changes.records, "read_records", and_the_broker_dies)
        try:
            world.attempt(pipeline, 0)
        except RetryableError:
            assert world.rows(pipeline) == []
    wait_until(lambda: stack.service_pid("kafka") not in (None, broker))
    stack.wait_for("kafka", print)
    assert world.attempt(pipeline, 0).outcome in ("applied", "already_applied")
    assert world.settle(pipeline, 0).counts.read == 100_000
    assert_deeply_right(world, pipeline, 1000)


def test_i7_a_broker_that_is_away_is_an_error_that_can_be_retried(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = world.pipeline("t", source={"bootstrap_servers": "127.0.0.1:1"}).source
    monkeypatch.setattr(include.sources.kafka, "TIMEOUT_SECONDS", 2.0)
    with pytest.raises(RetryableError, match="brokers are up"):
        source_extent(source)


def test_i7_partitions_that_are_added_begin_at_their_first_record(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source={"start": "latest"})
    world.coordinator(pipeline).plan()
    world.produce(topic, changes(range(10), 1), 1)
    world.run_batch(pipeline)
    world.admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    wait_until(lambda: world.leaders_of(topic) == 3)
    world.produce(topic, changes(range(30), 2), 3)
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert_deeply_right(world, pipeline, 30)


@pytest.mark.parametrize("commit", [pytest.param(True, marks=pytest.mark.slow), False])
def test_i7_an_open_transaction_holds_the_end_and_then_its_records_come_or_never_do(world: World, commit: bool) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1), 1)
    held = [{"id": n, "seq": 2, "name": "held", "op": "u"} for n in range(5)]
    with world.open_transaction(topic, held, commit=commit):
        world.produce(topic, changes(range(20, 25), 1), 1)  # behind the transaction: not visible before that ends
        world.run_batch(pipeline)
        assert set(as_dict(world.rows(pipeline))) == set(range(10))
        assert isinstance(world.coordinator(pipeline).plan(), Idle)
    extent = TopicPartition(topic, 0)  # Kafka writes the transaction's end some time after it has said so
    wait_until(lambda: source_extent(pipeline.source).partitions[extent].end_offset == 21)
    world.drain(pipeline)
    rows = as_dict(world.rows(pipeline))
    assert set(rows) == {*range(10), *range(20, 25)}
    assert {n for n, row in rows.items() if row["name"] == "held"} == (set(range(5)) if commit else set())
    assert_deeply_right(world, pipeline, 15)


@pytest.mark.slow
def test_i7_a_compacted_topic_has_gaps_and_they_are_no_losses(world: World) -> None:
    """Compacted between plan and read, so that the plan's ranges are wider than what there is to read."""
    config = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "200"}
    topic = world.topic(partitions=1, **config)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 200}})
    send(world, topic, [{"id": n % 10, "seq": n, "name": f"n{n}", "op": "u"} for n in range(300)])
    first = world.coordinator(pipeline).plan().batch
    assert first.width == 200

    def compacted() -> bool:  # a new record rolls the segment; the cleaner leaves the last one alone
        send(world, topic, [{"id": 99, "seq": 0, "name": "x", "op": "u"}])
        found = records_of(pipeline.source, [OffsetRange(topic, 0, 0, 300)])
        return sum(map(len, found)) < 300

    wait_until(compacted, 120)
    world.drain(pipeline)
    read = world.coordinator(pipeline).ledger.state().batches[0].commit.counts.read
    assert read < 200
    rows = as_dict(world.rows(pipeline))
    assert {n: row["seq"] for n, row in rows.items()} == {**{n: 290 + n for n in range(10)}, 99: 0}
    assert_deeply_right(world, pipeline, 11)


def test_records_of_five_megabytes(world: World) -> None:
    topic = world.topic(partitions=1, max_message_bytes="8000000")
    pipeline = world.pipeline(topic)
    values = [{"id": n, "seq": 1, "name": chr(97 + n) * 5_000_000, "op": "u"} for n in range(4)]
    send(world, topic, values)
    assert world.run_batch(pipeline).counts.read == 4
    assert as_dict(world.rows(pipeline)) == {value["id"]: value for value in values}
    assert_deeply_right(world, pipeline, 4)


def test_timestamps_of_the_past_and_the_future_and_null_keys_and_values(world: World) -> None:
    far = str(2**62)
    topic = world.topic(partitions=1, message_timestamp_after_max_ms=far, retention_ms="-1")
    pipeline = world.pipeline(topic)
    old, ahead = {"id": 1, "seq": 1, "name": "old", "op": "u"}, {"id": 2, "seq": 1, "name": "ahead", "op": "u"}
    send(world, topic, [old], timestamp=1)
    send(world, topic, [ahead], timestamp=4_102_444_800_000)  # the year 2100
    world.produce(topic, [None, {"id": 3, "seq": 1, "name": "no key", "op": "u"}], 1)
    world.run_batch(pipeline)
    assert {n: row["name"] for n, row in as_dict(world.rows(pipeline)).items()} == {1: "old", 2: "ahead", 3: "no key"}
    [aside] = world.quarantine(pipeline)
    assert (aside["offset"], aside["key"], aside["value"], aside["reason"]) == (2, None, None, "null value")
    assert world.coordinator(pipeline).ledger.state().next_offsets == {TopicPartition(topic, 0): 4}
    assert_deeply_right(world, pipeline, 3)


@pytest.mark.parametrize("uses_it", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_timestamp_that_is_in_no_year_stops_nobody(world: World, uses_it: bool) -> None:
    """Producers that count micro- or nanoseconds; Spark's own Kafka source fails at the latter."""
    topic = world.topic(1, message_timestamp_after_max_ms=str(2**63 - 1))
    producer = Producer({"bootstrap.servers": world.bootstrap_servers})
    for id_, millis in enumerate((1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000)):
        producer.produce(topic, json.dumps({"id": id_, "seq": 1}).encode(), timestamp=millis, partition=0)
    producer.flush()
    pipeline = world.pipeline(topic, source={"metadata": {"sent_at": "timestamp"} if uses_it else {}})
    assert world.drain(pipeline) == 1
    assert sorted(row["id"] for row in world.rows(pipeline)) == ([0] if uses_it else [0, 1, 2])
    said = {row["offset"]: row["reason"] for row in world.quarantine(pipeline)} if uses_it else {}
    assert said == dict.fromkeys([1, 2] if uses_it else [], "Kafka's timestamp is in no year of 1 to 9999")
    assert world.lakemark("audit", pipeline.name, "--deep").returncode == 0
