"""Nothing lost and nothing skipped: I7, I8 and I11 on a real broker, real Spark, real Delta."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import spark_jobs.attempt.content
import spark_jobs.attempt.work
from include.protocol.errors import (
    CountsDisagree,
    OffsetsExpired,
    OutcomeUnknownError,
    TopicRecreated,
)
from include.settings import MergeEngine
from tests.support.commits import at_the_point, raising
from tests.support.world import World, as_dict, changes, landed_commits, newest_by_key

pytestmark = pytest.mark.on_both_lakes


def test_i7_a_pipeline_that_starts_at_the_latest_offset_misses_nothing_after(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"start": "latest"})
    world.produce(topic, changes(range(10), 1, "before"))
    assert world.run_batch(pipeline) is None
    after = world.produce(topic, changes(range(5), 1, "after"))
    assert world.drain(pipeline) == 1
    assert as_dict(world.rows(pipeline)) == newest_by_key(after)


@pytest.mark.parametrize("engine", ["lane", "spark"])
def test_i7_records_that_expire_during_the_read_stop_the_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch, engine: MergeEngine
) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.create_target(pipeline)
    world.produce(topic, changes(range(30), 1), 1)
    world.coordinator(pipeline).plan()
    read = spark_jobs.attempt.work.read_records

    def retention_is_faster(*arguments: Any, **named: Any) -> Any:
        records = read(*arguments, **named)
        world.delete_before(topic, 0, 7)
        return records

    monkeypatch.setattr(spark_jobs.attempt.work, "read_records", retention_is_faster)
    with pytest.raises(OffsetsExpired):
        world.attempt(pipeline, 0, settings=replace(world.settings, merge_engine=engine))
    assert world.rows(pipeline) == []


def test_i7_a_recreated_topic_is_another_topic(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.run_batch(pipeline)
    world.recreate_topic(topic, 2)
    world.produce(topic, changes(range(60), 2))
    with pytest.raises(TopicRecreated):
        world.coordinator(pipeline).plan()


def test_i7_gaps_that_kafka_makes_by_design_are_no_errors(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(5), 1), 1, transaction="committed")
    world.produce(topic, changes(range(5), 9, "never"), 1, transaction="aborted")
    world.produce(topic, changes(range(5), 2), 1)
    result = world.run_batch(pipeline)
    width = world.coordinator(pipeline).ledger.state().batches[0].batch.width
    assert (result.counts.read, width) == (10, 17)  # two transaction markers and five aborted records
    assert {row["seq"] for row in world.rows(pipeline)} == {2}


def test_i7_a_range_that_holds_only_gaps_is_a_batch_of_nothing(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(5), 9), 1, transaction="aborted")
    assert world.run_batch(pipeline).counts.read == 0
    assert landed_commits(world, pipeline) == [0]
    assert world.run_batch(pipeline) is None


def test_i8_the_commit_says_where_every_record_went(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source={"filter": "name <> 'hidden'"})
    world.produce(topic, changes(range(10), 5), 1)
    world.run_batch(pipeline)
    world.produce(
        topic,
        [
            *changes(range(4), 6),  # superseded by the next four
            *changes(range(4), 7),
            *changes(range(4, 7), 1),  # stale: the table has seq 5
            {"id": 90, "seq": 1, "name": "hidden"},
            {"id": 91, "seq": 1, "name": None},  # not true: left out as well
            b"not json",
            None,
        ],
        1,
    )
    world.run_batch(pipeline)
    counts = world.coordinator(pipeline).ledger.state().batches[1].commit.counts
    assert counts.to_json() == {
        "read": 15,
        "applied": 4,
        "superseded": 4,
        "stale": 3,
        "quarantined": 2,
        "filtered": 2,
    }


@pytest.mark.parametrize(
    ("lost", "engine"),
    [("offset = 3", "lane"), ("offset = 3 OR offset = 12", "lane"), ("offset = 3 OR offset = 12", "spark")],
    ids=["a change", "and a broken one", "by Spark"],
)
def test_i8_what_decoding_loses_lands_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, lost: str, engine: MergeEngine
) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.create_target(pipeline)
    world.produce(topic, [*changes(range(10), 1), b"not json", None, b"{"], 1)
    world.coordinator(pipeline).plan()
    decode = spark_jobs.attempt.content.decode
    monkeypatch.setattr(
        spark_jobs.attempt.content,
        "decode",
        lambda *arguments, **named: decode(*arguments, **named).where(f"NOT ({lost})"),
    )
    with pytest.raises(CountsDisagree, match="13 records read"):
        world.attempt(pipeline, 0, settings=replace(world.settings, merge_engine=engine))
    assert (world.rows(pipeline), world.quarantine(pipeline)) == ([], [])


def test_i11_quarantine_before_target_and_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    bad = [b"{", None, b'{"id": null, "seq": 1}', b'{"id": 1, "seq": null}', b'{"id": "x", "seq": 1}', b"\xff\xfe"]
    world.produce(topic, [*changes(range(3), 1), *bad], 1)
    world.coordinator(pipeline).plan()

    with monkeypatch.context() as patched:
        at_the_point(patched, raising(ConnectionError("between quarantine and target")))
        with pytest.raises(OutcomeUnknownError):
            world.attempt(pipeline, 0)
    assert len(world.quarantine(pipeline)) == len(bad)
    assert world.attempt(pipeline, 0).outcome == "applied"
    kept = sorted(world.quarantine(pipeline), key=lambda row: row["offset"])
    assert [row["offset"] for row in kept] == [3, 4, 5, 6, 7, 8]
    assert [row["value"] for row in kept] == bad
    assert [row["reason"].split(" (")[0] for row in kept] == [
        "not a JSON object",
        "null value",
        "null in a key column",
        "null in an order column",
        "column id is no BIGINT",
        "not UTF-8",
    ]
    assert {row["batch_id"] for row in kept} == {0}
    assert world.settle(pipeline, 0).quarantine_version == 1
