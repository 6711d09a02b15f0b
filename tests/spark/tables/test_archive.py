"""The archive keeps every record as Kafka has it, and a table can be made from it without Kafka."""

from __future__ import annotations

import logging
import shutil

import pytest
from confluent_kafka.admin import NewPartitions

from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.protocol.errors import OffsetsExpired, TerminalError
from tests.support.world import World, as_dict, changes, newest_by_key, read_table


@pytest.mark.slow
def test_a_table_is_made_from_the_archive_once_kafka_has_dropped_its_records(world: World) -> None:
    topic = world.topic(partitions=2)
    pipeline = world.pipeline(topic, "kept", archive="lake://bronze/kept")
    world.produce(topic, [*changes(range(10), 1), b"{"], 2, headers=[("trace", b"7")])
    world.run_batch(pipeline)
    world.produce(topic, changes(range(5), 3), 2)
    world.run_batch(pipeline)
    tables = world.coordinator(pipeline).tables
    assert tables.archive is not None
    rows = read_table(tables.archive)
    assert {(r["topic"], r["partition"], r["offset"]) for r in rows} == {
        (r.topic, r.partition, r.offset) for r in world.sent
    }
    assert b"{" in [row["value"] for row in rows]  # what cannot be decoded, too
    assert [row["headers"] for row in rows].count([{"key": "trace", "value": b"7"}]) == 11
    assert {row["batch_id"] for row in rows} == {0, 1}

    for partition in (0, 1):  # retention; and the table is lost
        world.delete_before(topic, partition, 5)
    backfills = Backfills(world.coordinator(pipeline))
    with pytest.raises(OffsetsExpired, match="only an archive has the rest"):
        backfills.preview(BackfillRequest(into="new"))
    shutil.rmtree(world.on_disk(tables.target))
    path = world.settings.pipelines / "kept.yaml"
    path.write_text(path.read_text().replace("${KAFKA_BOOTSTRAP_SERVERS}", "127.0.0.1:9"))  # no Kafka there
    done = world.lakemark("run", "kept", "--from-archive")
    assert done.returncode == 0, done.stderr
    good = [record for record in world.sent if isinstance(record.value, dict)]
    assert as_dict(world.rows(pipeline)) == newest_by_key(good)


def test_a_pipeline_without_an_archive_says_so(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(2), 1), 1)
    world.run_batch(pipeline)
    with pytest.raises(TerminalError, match="there is no archive to read from"):
        Backfills(world.coordinator(pipeline)).preview(BackfillRequest(source="archive"))


def test_topics_by_pattern_and_keys_of_kafkas_own(world: World) -> None:
    prefix = world.topic(partitions=1)
    world.create_topic(f"{prefix}.a", 1)
    source = {"topics": [], "topics_pattern": f"{prefix}\\..+", "start": "latest"}
    pipeline = world.pipeline(prefix, "matched", source=source, change={"keys": "generated", "order_by": []})
    world.produce(f"{prefix}.a", changes(range(1), 1), 1)
    assert world.coordinator(pipeline).plan() is not None  # from now on
    world.produce(f"{prefix}.a", changes(range(2), 2), 1)
    world.run_batch(pipeline)
    assert {(r["kafka_topic"], r["kafka_offset"]) for r in world.rows(pipeline)} == {(f"{prefix}.a", n) for n in (1, 2)}
    world.create_topic(f"{prefix}.b", 1)  # later: read whole
    world.produce(f"{prefix}.b", changes(range(3), 1), 1)
    world.run_batch(pipeline)
    found = {(row["kafka_topic"], row["kafka_offset"]) for row in world.rows(pipeline)}
    assert found == {(f"{prefix}.a", n) for n in (1, 2)} | {(f"{prefix}.b", n) for n in (0, 1, 2)}
    nothing = world.pipeline(prefix, "nothing", source={"topics": [], "topics_pattern": "no-such-topic.*"})
    with pytest.raises(TerminalError, match="no topic matches the pattern"):
        world.coordinator(nothing).plan()


def test_partitions_that_are_added_where_kafkas_order_decides_are_told_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    topic = world.topic(partitions=1)
    by_offset, by_column = world.pipeline(topic, change={"order_by": []}), world.pipeline(topic)
    world.produce(topic, changes(range(2), 1), 1)
    for pipeline in (by_offset, by_column):
        world.run_batch(pipeline)
    world.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    world.produce(topic, changes(range(2), 2), 2)
    with caplog.at_level(logging.WARNING, logger="include.control.coordinator"):
        world.coordinator(by_column).plan()
        assert caplog.messages == []
        world.coordinator(by_offset).plan()
    [warning] = caplog.messages
    assert f"partitions were added: {topic}-1" in warning
    assert "an older change may then win" in warning
