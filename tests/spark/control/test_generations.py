"""Reset, skip and rebuild on a real broker, real Spark, real Delta: I5, I7, I10."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from include.audit.auditor import audit
from include.cli.main import main
from include.control.quarantine import Chosen, Quarantine
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import (
    BatchMismatch,
    FencedGeneration,
    LedgerBehindTarget,
    OffsetsExpired,
    TableDamaged,
    TargetBehindLedger,
    TerminalError,
    TopicRecreated,
)
from include.protocol.ranges import TopicPartition
from tests.support.world import World, as_dict, changes, newest_by_key


@pytest.fixture
def lakemark(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """The command, in this process: returns its JSON; fails if the exit code is another one."""
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def two_batches(world: World, **sections: Any) -> tuple[str, Pipeline]:
    """A pipeline with one batch in the table and one that is planned; 10 records each, in one partition."""
    topic = world.topic(partitions=1)
    limits = {"limits": {"records_per_batch_max": 10}}
    pipeline = world.pipeline(topic, **{"source": limits, **sections})
    world.produce(topic, changes(range(10), 1) + changes(range(5, 15), 2), 1)
    world.run_batch(pipeline)
    world.coordinator(pipeline).plan()
    return topic, pipeline


def assert_right(world: World, pipeline: Pipeline) -> None:
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline).findings == ()


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
    with pytest.raises(OffsetsExpired) as failure:
        world.attempt(pipeline, 1)
    command = failure.value.action.split("`")[1].split()
    assert command[:3] == ["lakemark", "ledger", "skip"]
    assert f"{topic}-0:10-15" in command
    [*_, refused] = lakemark("status", pipeline.name)
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
    """Though they have the same names, topic, partition and offset."""
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
        "recomputed from 11 records: 3 rows are equal; 9 rows come from records that Kafka no longer holds",
    )
    shutil.rmtree(str(world.coordinator(pipeline).ledger.uri))
    lakemark("ledger", "rebuild", pipeline.name)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i3_a_restored_target_is_noticed_and_filled_again(world: World, lakemark) -> None:
    _, pipeline = two_batches(world)
    world.drain(pipeline)
    path = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert {row["seq"] for row in world.rows(pipeline)} == {1}
    with pytest.raises(TargetBehindLedger, match="--from 1 "):
        world.coordinator(pipeline).plan()
    assert "RESTORE" in str(audit(world.settings, pipeline).findings)
    lakemark("reset", pipeline.name, "--from", "1", "--reason", "restored")
    assert_right(world, pipeline)


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
            shutil.rmtree(path)
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


@pytest.mark.parametrize(
    "how",
    [
        "deleted",
        pytest.param("an old copy", marks=SLOW),
        pytest.param("torn", marks=SLOW),
        pytest.param("emptied", marks=SLOW),
        pytest.param("a gap", marks=SLOW),
    ],
)
def test_i10_a_lost_ledger_is_made_anew_and_nothing_is_lost_or_applied_twice(
    world: World, lakemark, how: str, tmp_path: Path
) -> None:
    topic, pipeline = two_batches(world)
    ledger = world.coordinator(pipeline).ledger
    shutil.copytree(str(ledger.uri), tmp_path / "copy")
    world.drain(pipeline)
    world.produce(topic, changes(range(3), 3), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(3), 4), 1)
    world.coordinator(pipeline).plan()
    assert lakemark("ledger", "rebuild", pipeline.name, code=1)["what"] == "the ledger is sound"
    log = sorted(Path(str(ledger.uri), "_delta_log").glob("*.json"))
    if how == "torn":
        log[-1].write_bytes(log[-1].read_bytes()[:-20])
    elif how == "emptied":
        log[-1].write_bytes(b"")
    elif how == "a gap":
        log[-2].unlink()  # after the newest checkpoint: before it nobody would miss one
    else:
        shutil.rmtree(str(ledger.uri))
        if how == "an old copy":
            (tmp_path / "copy").rename(str(ledger.uri))
    with pytest.raises((LedgerBehindTarget, TableDamaged), match="ledger rebuild"):
        world.coordinator(pipeline).plan()
    versions = world.version(pipeline)
    facts = lakemark("ledger", "rebuild", pipeline.name, "--reason", how)
    assert (facts["origin"], facts["start_offsets"][0]["offset"]) == ("commit metadata", 23)
    assert (facts["old_ledger"] is None) == (how == "deleted")
    assert world.version(pipeline) == versions + 1  # the fence
    assert world.rows(pipeline)
    events = [row["event"] for row in world.coordinator(pipeline).ledger.rows()]
    assert events == [*["planned", "committed"] * 3, "generation_started"]
    with pytest.raises(FencedGeneration):  # of the plan that the lost ledger held
        world.attempt(pipeline, 2, key=BatchKey(1, 3))
    assert world.drain(pipeline) == 1
    assert_right(world, pipeline)


def test_i10_a_plan_of_the_lost_ledger_that_lands_after_all_is_taken_over(
    world: World, lakemark, tmp_path: Path
) -> None:
    """The ledger is replaced by a copy from before the plan, another batch 1 is planned, and then the old one lands."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 10}})
    world.produce(topic, changes(range(10), 1) + changes(range(5, 15), 2), 1)
    world.run_batch(pipeline)
    ledger = world.coordinator(pipeline).ledger
    shutil.copytree(str(ledger.uri), tmp_path / "copy")
    world.coordinator(pipeline).plan()

    @contextmanager
    def replaced_meanwhile():
        shutil.rmtree(str(ledger.uri))
        (tmp_path / "copy").rename(str(ledger.uri))
        smaller = world.pipeline(topic, pipeline.name, source={"limits": {"records_per_batch_max": 4}})
        assert world.coordinator(smaller).plan().batch.width == 4
        with world.session() as spark:
            yield spark

    assert world.attempt(pipeline, 1, open_session=replaced_meanwhile).outcome == "applied"
    with pytest.raises(BatchMismatch):
        world.coordinator(pipeline).plan()
    facts = lakemark("ledger", "rebuild", pipeline.name)
    assert facts["start_offsets"][0]["offset"] == 20
    assert_right(world, pipeline)


@pytest.mark.slow
def test_i10_without_commit_metadata_the_rows_tell(world: World, lakemark) -> None:
    """Delta's log clean-up, by hand: a checkpoint, and the commits before it gone."""
    topic, pipeline = two_batches(world)
    world.drain(pipeline)
    path = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        for n in range(10):  # Delta writes a checkpoint every ten commits
            spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('note' = '{n}')")
    [checkpoint, *_] = sorted(Path(path, "_delta_log").glob("*.checkpoint*.parquet"), reverse=True)
    version = int(checkpoint.name[:20])
    for file in Path(path, "_delta_log").glob("*.json"):
        if int(file.name[:20]) < version:
            file.unlink()
    shutil.rmtree(str(world.coordinator(pipeline).ledger.uri))
    facts = lakemark("ledger", "rebuild", pipeline.name)
    assert (facts["origin"], facts["start_offsets"][0]["offset"]) == ("rows", 20)
    world.produce(topic, changes(range(3), 3), 1)
    assert_right(world, pipeline)


def test_there_is_nothing_to_rebuild_from_without_a_target(world: World, lakemark) -> None:
    _, pipeline = two_batches(world)
    ledger = world.coordinator(pipeline).ledger
    Path(sorted(Path(str(ledger.uri), "_delta_log").glob("*.json"))[-1]).write_text("")
    shutil.rmtree(str(world.coordinator(pipeline).tables.target))
    assert lakemark("ledger", "rebuild", pipeline.name, code=1)["what"] == "there is nothing to rebuild the ledger from"


def test_a_skip_must_start_where_the_pipeline_stands(world: World, lakemark) -> None:
    topic, pipeline = two_batches(world)
    said = lakemark("ledger", "skip", pipeline.name, "--range", f"{topic}-0:3-12", "--reason", "x", code=1)
    assert "where the pipeline stands, at 10" in said["expected"]
    assert world.coordinator(pipeline).ledger.state().generation == 1
    with pytest.raises(TerminalError):
        world.attempt(pipeline, 7)


def test_the_ledger_can_be_looked_at(world: World, lakemark, capsys: pytest.CaptureFixture) -> None:
    _, pipeline = two_batches(world)
    lakemark("reset", pipeline.name, "--reason", "because")
    assert [row["event"] for row in lakemark("ledger", "show", pipeline.name, "--last", "2")] == [
        "planned",
        "generation_started",
    ]
    capsys.readouterr()
    assert main(["ledger", "show", pipeline.name]) == 0
    said = capsys.readouterr().out
    assert "because" in said
    assert "10 applied" in said
