"""Backfills on a real broker, real Spark and real Delta: beside the live pipeline, once, order-proof, and promoted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.pipeline_file import Pipeline
from include.protocol.backfill import Backfill
from include.protocol.batch import BatchKey
from include.protocol.errors import FencedGeneration, OffsetsExpired, RetryableError, TerminalError
from include.protocol.ranges import OffsetRange
from spark_jobs.commands.promote import promote
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, changes, newest_by_key, read_table


def planned(world: World, pipeline: Pipeline, request: BackfillRequest, request_id: str = "r") -> Backfill:
    return Backfills(world.coordinator(pipeline)).plan(request, request_id, "a test", "test")


def run_chunk(world: World, pipeline: Pipeline, backfill: Backfill, chunk: int) -> str:
    return world.attempt(pipeline, 0, key=BatchKey(backfill.generation, chunk)).outcome


def findings(world: World, pipeline: Pipeline, *arguments: str) -> list:
    [report] = json.loads(world.lakemark("audit", pipeline.name, "--json", *arguments).stdout)
    return report["findings"]


def later_than(moment: datetime) -> datetime | None:
    """Now, once some of Kafka's milliseconds have gone by."""
    now = datetime.now(UTC)
    return now if now - moment > timedelta(milliseconds=5) else None


def spoil(world: World, pipeline: Pipeline, condition: str) -> None:
    """A foreign writer's accident."""
    with world.session() as spark:
        spark.sql(
            f"UPDATE delta.`{world.coordinator(pipeline).tables.target}` SET name = 'spoiled' WHERE {condition}"
        ).collect()


def test_i3_i9_chunks_land_once_in_any_order_and_never_replace_newer_rows(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(40), seq=1, name="old"))
    world.produce(topic, changes(range(0, 40, 2), seq=2, name="new"))
    world.drain(pipeline)
    right = as_dict(world.rows(pipeline))
    spoil(world, pipeline, "id < 30")
    before = world.coordinator(pipeline).ledger.state()
    backfill = planned(world, pipeline, BackfillRequest(batches=(0, 0), records_per_chunk_max=20))
    assert len(backfill.chunks) == 3
    assert planned(world, pipeline, BackfillRequest(batches=(0, 0))) == backfill  # the same request, recorded once
    assert [run_chunk(world, pipeline, backfill, chunk) for chunk in (2, 0)] == ["applied"] * 2
    with pytest.raises(RetryableError, match="1 missing: 1"):
        Backfills(world.coordinator(pipeline)).verify_landed(backfill)
    world.produce(topic, changes(range(5), seq=3, name="live"))  # the live pipeline goes on beside it
    assert world.run_batch(pipeline).batch.batch_id == 1
    assert run_chunk(world, pipeline, backfill, 1) == "applied"
    version = world.version(pipeline)
    assert [run_chunk(world, pipeline, backfill, chunk) for chunk in (0, 1, 2)] == ["already_applied"] * 3
    assert world.version(pipeline) == version
    found = as_dict(world.rows(pipeline))
    assert found == newest_by_key(world.sent)  # what was spoiled is right again, what is newer stayed
    assert {i: found[i] for i in range(5, 40)} == {i: right[i] for i in range(5, 40)}
    after = world.coordinator(pipeline).ledger.state()
    assert (after.generation, after.committed_through) == (before.generation, 1)
    chunks = Backfills(world.coordinator(pipeline)).verify_landed(backfill)
    assert sum(chunk.counts["read"] for chunk in chunks) == 60
    assert [f for f in findings(world, pipeline) if "another writer" not in json.dumps(f)] == []


def test_a_time_span_is_found_by_kafkas_own_index(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(5), seq=1), partitions=1)
    sent = datetime.now(UTC)
    middle = wait_until(lambda: later_than(sent))  # Kafka's timestamps count milliseconds
    wait_until(lambda: later_than(middle))
    world.produce(topic, changes(range(5, 12), seq=1), partitions=1)
    backfills = Backfills(world.coordinator(pipeline))
    assert backfills.preview(BackfillRequest(since=middle))["ranges"] == [f"{topic}-0:5-12"]
    assert backfills.preview(BackfillRequest(until=middle))["ranges"] == [f"{topic}-0:0-5"]
    assert backfills.preview(BackfillRequest(until=middle))["estimated_seconds"] is None  # nothing has run yet
    world.drain(pipeline)
    assert backfills.preview(BackfillRequest(until=middle))["estimated_seconds"] > 0
    with pytest.raises(TerminalError, match="none in that range"):
        backfills.preview(BackfillRequest(since=datetime.now(UTC)))
    assert backfills.settler.ledger.state().backfills == {}  # a preview writes nothing


@pytest.mark.slow
def test_a_new_table_takes_the_targets_place_with_all_that_landed_meanwhile(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 30}})
    world.produce(topic, changes(range(50), seq=1))
    world.drain(pipeline)
    spoil(world, pipeline, "id = 7")
    with world.session() as spark:
        spark.sql(f"DELETE FROM delta.`{world.coordinator(pipeline).tables.target}` WHERE id < 5").collect()
    backfill = planned(world, pipeline, BackfillRequest(into="new"))
    world.produce(topic, changes(range(40, 60), seq=2, name="meanwhile"))
    world.drain(pipeline)
    spoiled = as_dict(world.rows(pipeline))
    done = world.lakemark("backfill", pipeline.name, "--resume", str(backfill.number), "--json")
    assert done.returncode == 0, done.stderr
    state = world.coordinator(pipeline).ledger.state()
    assert (state.generation, state.committed_through) == (2, -1)
    assert state.next_offsets == backfill.next_offsets
    assert state.backfills[1].outcome == "swapped"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent[:50])  # as of its plan, for a moment
    assert spoiled != newest_by_key(world.sent)
    assert findings(world, pipeline, "--deep") == []
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert findings(world, pipeline, "--deep") == []
    with pytest.raises(FencedGeneration, match="was swapped"):
        run_chunk(world, pipeline, backfill, 0)


@pytest.mark.slow
def test_i5_an_attempt_of_the_live_generation_that_wakes_after_the_swap_lands_nothing(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), seq=1))
    world.drain(pipeline)
    backfill = planned(world, pipeline, BackfillRequest(into="new"))
    run_chunk(world, pipeline, backfill, 0)
    world.produce(topic, changes(range(10), seq=2, name="late"))
    batch = world.coordinator(pipeline).plan().batch

    def swapped_meanwhile(fact: dict) -> None:
        if fact.get("progress") == "merge":
            with world.session() as spark:
                promote(spark, world.settings, pipeline, backfill.number, "test")

    with pytest.raises(FencedGeneration):
        world.attempt(pipeline, batch.batch_id, say=swapped_meanwhile)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent[:20])
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


@pytest.mark.slow
def test_after_a_cancel_no_chunk_lands_and_what_landed_stays(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(40), seq=1))
    world.drain(pipeline)
    spoil(world, pipeline, "true")
    backfill = planned(world, pipeline, BackfillRequest(batches=(0, 0), records_per_chunk_max=20))
    run_chunk(world, pipeline, backfill, 0)

    def cancelled_meanwhile(fact: dict) -> None:
        if fact.get("progress") == "merge":
            said = world.lakemark("backfill", pipeline.name, "--cancel", "1", "--json")
            assert [c["state"] for c in json.loads(said.stdout)] == ["landed", "cancelled"]

    with pytest.raises(FencedGeneration):
        world.attempt(pipeline, 0, key=BatchKey(backfill.generation, 1), say=cancelled_meanwhile)
    with pytest.raises(FencedGeneration, match="was cancelled"):
        run_chunk(world, pipeline, backfill, 1)
    names = [row["name"] for row in as_dict(world.rows(pipeline)).values()]
    assert names.count("spoiled") == 20
    [listed] = json.loads(world.lakemark("backfill", pipeline.name, "--list", "--json").stdout)
    assert (listed["state"], listed["landed"], listed["chunks"]) == ("cancelled", 1, 2)
    world.produce(topic, changes(range(3), seq=2))
    assert world.drain(pipeline) == 1  # the live pipeline never noticed


def test_what_kafka_does_not_hold_is_refused_and_nothing_is_recorded(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(40), seq=1))
    world.drain(pipeline)
    world.delete_before(topic, 0, 5)
    backfills = Backfills(world.coordinator(pipeline))
    with pytest.raises(OffsetsExpired, match="5 to 20"):
        planned(world, pipeline, BackfillRequest(ranges=[OffsetRange(topic, 0, 0, 10)]))
    with pytest.raises(OffsetsExpired, match="cannot be built again"):
        planned(world, pipeline, BackfillRequest(into="new"))
    with pytest.raises(TerminalError, match="there is no archive to read from"):
        planned(world, pipeline, BackfillRequest(batches=(0, 0), source="archive"))
    assert backfills.settler.ledger.state().backfills == {}
    refused = world.lakemark("backfill", pipeline.name, "--range", f"{topic}-0:0-10", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"] == "OffsetsExpired"
    assert not world.on_disk(world.coordinator(pipeline).tables.backfills).exists()
    assert read_table(world.coordinator(pipeline).tables.quarantine) == []
