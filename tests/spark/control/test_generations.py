"""Reset and skip on a real broker, real Spark, real Delta: I3, I5 to I9."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

from include.audit.auditor import audit
from include.control.quarantine import Chosen, Quarantine
from include.protocol.batch import BatchKey
from include.protocol.errors import (
    FencedGeneration,
    OffsetsExpired,
    TargetBehindLedger,
    TerminalError,
    TopicRecreated,
)
from include.protocol.ranges import TopicPartition
from tests.support.generations import assert_right, two_batches
from tests.support.world import World, as_dict, changes, newest_by_key


def test_i5_an_attempt_of_a_generation_that_was_reset_never_lands(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)

    @contextmanager
    def reset_meanwhile():  # past the guard
        lakemark("reset", pipeline.name, "--reason", "test")
        with world.session() as spark:
            yield spark

    with pytest.raises(FencedGeneration):
        world.attempt(pipeline, 1, open_session=reset_meanwhile)
    state = world.coordinator(pipeline).ledger.state()
    assert (state.generation, state.next_offsets) == (2, {TopicPartition(topic, 0): 10})
    assert {row["seq"] for row in world.rows(pipeline)} == {1}
    with pytest.raises(FencedGeneration):  # a task of the old generation that is cleared later
        world.attempt(pipeline, 1, key=BatchKey(1, 1))
    with pytest.raises(FencedGeneration):
        world.coordinator(pipeline).settle(BatchKey(1, 1))
    assert_right(world, pipeline)
    assert {row["_lakemark"]["generation"] for row in world.rows(pipeline)} == {1, 2}


def test_i6_a_reset_settles_what_has_landed_first(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)
    world.attempt(pipeline, 1)  # its settle never runs
    started = lakemark("reset", pipeline.name, "--reason", "test")
    assert started["start_offsets"] == [{"topic": topic, "partition": 0, "offset": 20}]
    assert_right(world, pipeline)


def test_i9_a_reset_to_the_earliest_reads_all_again_and_changes_nothing(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world, target={"cluster_by": ["id"]})
    world.drain(pipeline)
    before = world.rows(pipeline)
    started = lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "test")
    assert started["start_offsets"] == [{"topic": topic, "partition": 0, "offset": 0}]
    assert world.drain(pipeline) == 2
    assert sorted(world.rows(pipeline), key=lambda r: r["id"]) == sorted(before, key=lambda r: r["id"])
    assert_right(world, pipeline)


@pytest.mark.slow
def test_a_reset_of_a_pipeline_that_never_landed_anything_makes_the_table_to_fence_it(world: World, lakemark) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.coordinator(pipeline).plan()
    dry = lakemark("reset", pipeline.name, "--reason", "test", "--dry-run")
    assert (dry["recorded"], world.coordinator(pipeline).ledger.state().generation) == (False, 1)
    lakemark("reset", pipeline.name, "--reason", "test")
    with pytest.raises(FencedGeneration):
        world.attempt(pipeline, 0, key=BatchKey(1, 0))
    assert_right(world, pipeline)


def test_i7_a_skip_is_the_way_out_of_a_range_that_has_expired(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)
    world.delete_before(topic, 0, 15)  # batch 1 is [10, 20)
    with pytest.raises(OffsetsExpired, match="log starts at 15") as failure:
        world.attempt(pipeline, 1)
    with pytest.raises(OffsetsExpired):
        world.coordinator(pipeline).plan()
    assert {row["id"] for row in world.rows(pipeline)} == set(range(10))
    command = failure.value.action.split("`")[1].split()
    assert command[:3] == ["lakemark", "ledger", "skip"]
    assert f"{topic}-0:10-15" in command
    [*_, refused] = lakemark("status", pipeline.name, code=1)  # it stands still
    assert f"{topic}-0:10-15" in refused["problem"]
    lakemark("ledger", "skip", pipeline.name, "--range", f"{topic}-0:10-16", "--reason", "x", code=0)
    state = world.coordinator(pipeline).ledger.state()
    assert [str(r) for r in state.generations[0].skipped] == [f"{topic}-0[10, 16)"]
    world.drain(pipeline)
    left = [record for record in world.sent if not 10 <= record.offset < 16]
    assert as_dict(world.rows(pipeline)) == newest_by_key(left)
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    beyond = report.recomputed.rows_beyond_reach  # of batch 0, which Kafka does not hold any more
    assert (beyond, report.recomputed.rows_equal) == (10, 4)
    assert [loss for loss in report.on_record if f"{topic}-0[10, 16)" in loss and "x" in loss]


def test_i7_a_reset_is_the_way_out_of_a_topic_that_was_recreated(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)
    world.drain(pipeline)
    world.recreate_topic(topic, 1)
    again = world.produce(topic, changes(range(8, 12), 3, "again"), 1)
    with pytest.raises(TopicRecreated, match="--from earliest"):
        world.coordinator(pipeline).plan()
    assert lakemark("reset", pipeline.name, "--reason", "x", code=1)["error"] == "TopicRecreated"
    lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "x")
    assert_right(world, pipeline)
    assert all(as_dict(world.rows(pipeline))[r.value["id"]] == r.value for r in again)
    assert "re-created" in " ".join(audit(world.settings, pipeline).on_record)


def test_i8_records_of_a_topic_that_was_made_anew_are_not_those_of_the_old_one(world: World, lakemark) -> None:
    """Although they have the same names: topic, partition and offset."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, [b"{", *changes(range(9), 5, "old"), b"{"], 1)
    world.drain(pipeline)
    world.recreate_topic(topic, 1)
    world.produce(topic, [*changes(range(20, 23), 1, "new"), b"[", *changes(range(7), 3, "late")], 1)
    lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "x")
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(r for r in world.sent if isinstance(r.value, dict))
    waiting = Quarantine.of(world.coordinator(pipeline)).pending(Chosen(), 10)
    assert sorted((record["offset"], record["value"]) for record in waiting) == [(0, b"{"), (3, b"["), (10, b"{")]
    report = audit(world.settings, pipeline, deep=True)
    assert (report.findings, str(report.recomputed)) == (
        (),
        "recomputed from 11 records: 3 rows are equal; 9 rows are beyond reach of Kafka's records",
    )
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).ledger.uri))
    lakemark("ledger", "rebuild", pipeline.name)
    assert audit(world.settings, pipeline, deep=True).findings == ()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "how", [pytest.param("gone", marks=SLOW), pytest.param("created anew", marks=SLOW), "replaced"]
)
def test_i3_a_replaced_target_is_noticed_and_filled_again(world: World, lakemark, how: str) -> None:
    _, pipeline = two_batches(world)
    world.drain(pipeline)
    path = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        if how != "replaced":
            shutil.rmtree(world.on_disk(path))
            path = f"{path}_anew"  # the warm server keeps what it knows of a path
            (world.settings.pipelines / f"{pipeline.name}.yaml").write_text(
                (world.settings.pipelines / f"{pipeline.name}.yaml")
                .read_text()
                .replace(f"/{pipeline.name}", f"/{pipeline.name}_anew")
            )
            pipeline = world.load(pipeline.name)
        if how == "created anew":
            world.create_target(pipeline)
        if how == "replaced":
            spark.sql(
                f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT * FROM delta.`{path}` WHERE id < 3"
            )
    with pytest.raises(TargetBehindLedger, match="--from earliest"):
        world.coordinator(pipeline).plan()
    assert audit(world.settings, pipeline).findings != ()
    lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "replaced")
    with pytest.raises(FencedGeneration):
        world.attempt(pipeline, 0, key=BatchKey(1, 1))
    assert_right(world, pipeline)


def test_a_skip_must_start_where_the_pipeline_stands(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)
    said = lakemark("ledger", "skip", pipeline.name, "--range", f"{topic}-0:3-12", "--reason", "x", code=1)
    assert "where the pipeline stands, at 10" in said["expected"]
    assert world.coordinator(pipeline).ledger.state().generation == 1
    with pytest.raises(TerminalError):
        world.attempt(pipeline, 7)
