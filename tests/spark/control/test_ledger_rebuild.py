"""A lost ledger is made anew, on a real broker, real Spark, real Delta: I10."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from include.cli.command import main
from include.lake.stores import files_at
from include.protocol.batch import BatchKey
from include.protocol.errors import (
    BatchMismatch,
    FencedGeneration,
    LedgerBehindTarget,
    TableDamaged,
)
from tests.support.generations import assert_right, two_batches
from tests.support.world import World, changes

SLOW = pytest.mark.slow


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
    shutil.copytree(world.on_disk(ledger.uri), tmp_path / "copy")
    world.drain(pipeline)
    world.produce(topic, changes(range(3), 3), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(3), 4), 1)
    world.coordinator(pipeline).plan()
    assert lakemark("ledger", "rebuild", pipeline.name, code=1)["what"] == "the ledger is sound"
    log = sorted((world.on_disk(ledger.uri) / "_delta_log").glob("*.json"))
    if how == "torn":
        log[-1].write_bytes(log[-1].read_bytes()[:-20])
    elif how == "emptied":
        log[-1].write_bytes(b"")
    elif how == "a gap":
        log[-2].unlink()  # after the newest checkpoint: nobody would miss an earlier one
    else:
        shutil.rmtree(world.on_disk(ledger.uri))
        if how == "an old copy":
            (tmp_path / "copy").rename(world.on_disk(ledger.uri))
    with pytest.raises((LedgerBehindTarget, TableDamaged), match="ledger rebuild"):
        world.coordinator(pipeline).plan()
    versions = world.version(pipeline)
    facts = lakemark("ledger", "rebuild", pipeline.name, "--reason", how)
    assert (facts["origin"], facts["start_offsets"][0]["offset"]) == ("commit metadata", 23)
    assert (facts["old_ledger"] is None) == (how == "deleted")
    assert world.version(pipeline) == versions + 1  # the fence
    assert world.rows(pipeline)
    events = [row["event"] for row in world.coordinator(pipeline).ledger.rows()]
    assert events == ["topics_started", *["planned", "committed"] * 3, "generation_started"]
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
    shutil.copytree(world.on_disk(ledger.uri), tmp_path / "copy")
    world.coordinator(pipeline).plan()

    @contextmanager
    def replaced_meanwhile():
        shutil.rmtree(world.on_disk(ledger.uri))
        (tmp_path / "copy").rename(world.on_disk(ledger.uri))
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
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).ledger.uri))
    facts = lakemark("ledger", "rebuild", pipeline.name)
    assert (facts["origin"], facts["start_offsets"][0]["offset"]) == ("rows", 20)
    world.produce(topic, changes(range(3), 3), 1)
    assert_right(world, pipeline)


def test_there_is_nothing_to_rebuild_from_without_a_target(world: World, lakemark) -> None:
    _, pipeline = two_batches(world)
    log = world.coordinator(pipeline).ledger.uri / "_delta_log"
    [*_, last] = sorted(file.name for file in files_at(log).list(log) if file.name.endswith(".json"))
    files_at(log).write(log / last, BytesIO())
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.target))
    assert lakemark("ledger", "rebuild", pipeline.name, code=1)["what"] == "there is nothing to rebuild the ledger from"


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
