"""Every terminal error, provoked on the real stack. The test does what the error says, word for word, until the
pipeline is at the end of its topic and the table is right. (`tests/pure/house/test_advice.py` has the list, and checks
the commands' grammar. Errors of files are in `test_advice_on_files.py`.)"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.audit.auditor import audit
from include.lake.ledger import LEDGER_SCHEMA
from include.lake.table_log import TableLog
from include.pipeline_file import Pipeline
from include.protocol.errors import (
    CountsDisagree,
    LakemarkError,
    LedgerBehindTarget,
    RangeGap,
    SchemaChanged,
    TargetBehindLedger,
)
from include.protocol.ledger_events import BatchPlanned
from tests.support.advice import advised, follow
from tests.support.topics import Sent
from tests.support.world import World, as_dict, as_states, changes, newest_by_key, read_table, states_by_key

SLOW = pytest.mark.slow


def one_batch(world: World, **sections: Any) -> Pipeline:
    """A pipeline with one batch in the table, and one that waits in Kafka; 10 records each, in one partition."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, **{"source": {"limits": {"records_per_batch_max": 10}}, **sections})
    world.produce(topic, changes(range(10), 1) + changes(range(5, 15), 2), 1)
    world.run_batch(pipeline)
    return pipeline


def assert_right(world: World, pipeline: Pipeline, sent: list[Sent] | None = None) -> None:
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent if sent is None else sent)
    assert audit(world.settings, pipeline).findings == ()


def names(met: list[dict[str, Any]]) -> list[str]:
    return [error["error"] for error in met]


@SLOW
def test_numbers_that_do_not_add_up(world: World) -> None:
    """CountsDisagree: another writer has put a row there twice, and a batch changes both."""
    pipeline = one_batch(world)
    path = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}` WHERE id = 7")
    batch = world.coordinator(pipeline).plan().batch
    world.attempt(pipeline, batch.batch_id)
    with pytest.raises(CountsDisagree) as failure:
        world.settle(pipeline, batch.batch_id)
    assert world.settle(pipeline, batch.batch_id).counts is None  # it has landed, and the ledger knows it
    look, anew, on_record = advised(failure.value.action, pipeline)
    told = world.lakemark(*look)
    assert told.returncode == 1
    assert "rows share their key with another row" in told.stdout and "7" in told.stdout
    world.produce(pipeline.source.topics[0], changes(range(3), 3), 1)
    assert follow(world, pipeline) == []  # it does not stand still
    assert world.lakemark(*on_record, "--dry-run").returncode == 0
    done = world.lakemark(*anew)
    assert done.returncode == 0, done.stderr
    assert follow(world, pipeline) == []
    assert_right(world, pipeline)
    assert "the MERGE counted other rows" in " ".join(audit(world.settings, pipeline).on_record)


@SLOW
@pytest.mark.parametrize("how", ["reset", "rebuild"])
def test_i10_numbers_that_do_not_add_up_hold_nobody_up(world: World, how: str) -> None:
    """CountsDisagree stops neither a reset nor a rebuild of the ledger, which both settle first."""
    pipeline = one_batch(world)
    coordinator = world.coordinator(pipeline)
    with world.session() as spark:
        table = f"delta.`{coordinator.tables.target}`"
        spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")
    world.attempt(pipeline, coordinator.plan().batch.batch_id)
    if how == "rebuild":
        sound = world.lakemark("ledger", "rebuild", pipeline.name)
        assert "the ledger is sound" in sound.stderr
        assert coordinator.ledger.state().committed_through == 1
        shutil.rmtree(world.on_disk(coordinator.ledger.uri))
    command = ["reset", pipeline.name] if how == "reset" else ["ledger", "rebuild", pipeline.name]
    done = world.lakemark(*command, "--reason", "test")
    assert done.returncode == 0, done.stderr
    state = coordinator.ledger.state()
    assert (state.generation, list(state.next_offsets.values())) == (2, [20])
    assert follow(world, pipeline) == []


@SLOW
def test_numbers_of_a_backfill_that_do_not_add_up_are_told_once_it_is_at_its_end(world: World) -> None:
    """CountsDisagree: what has landed has landed. This holds for a chunk, too."""
    pipeline = one_batch(world)
    with world.session() as spark:
        table = f"delta.`{world.coordinator(pipeline).tables.target}`"
        spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")
    done = world.lakemark("backfill", pipeline.name, "--batches", "0")
    assert (done.returncode, "CountsDisagree" in done.stderr) == (1, True), done.stderr
    [record] = world.coordinator(pipeline).ledger.state().backfills.values()
    assert record.outcome == "applied"
    assert world.lakemark("backfill", pipeline.name, "--into-new-table").returncode == 0
    assert follow(world, pipeline) == []
    assert_right(world, pipeline)


@SLOW
def test_other_keys(world: World) -> None:
    """SchemaChanged: fewer keys would make one change meet several rows; found before anything lands."""
    pipeline = one_batch(world, change={"keys": ["id", "name"], "order_by": ["seq"]})
    world.produce(pipeline.source.topics[0], changes(range(10), 3, "other"), 1)
    world.run_batch(pipeline)
    world.run_batch(pipeline)
    version = world.version(pipeline)
    assert len({row["id"] for row in world.rows(pipeline)}) < len(world.rows(pipeline))
    narrower = world.pipeline(pipeline.source.topics[0], pipeline.name, change={"keys": ["id"], "order_by": ["seq"]})
    world.produce(pipeline.source.topics[0], changes(range(4), 4), 1)
    with pytest.raises(SchemaChanged, match=r"change\.keys.*id, name") as failure:
        world.run_batch(narrower)
    assert world.version(narrower) == version
    [anew] = advised(failure.value.action, narrower)
    done = world.lakemark(*anew)
    assert done.returncode == 0, done.stderr
    assert follow(world, narrower) == []
    assert_right(world, narrower)
    world.produce(pipeline.source.topics[0], changes(range(4), 5), 1)
    assert follow(world, narrower) == []
    assert_right(world, narrower)


@pytest.mark.slow
def test_a_target_that_was_rolled_back(world: World) -> None:
    """TargetBehindLedger."""
    pipeline = one_batch(world)
    world.drain(pipeline)
    with world.session() as spark:
        spark.sql(f"RESTORE TABLE delta.`{world.coordinator(pipeline).tables.target}` TO VERSION AS OF 1")
    assert {row["seq"] for row in world.rows(pipeline)} == {1}
    with pytest.raises(TargetBehindLedger, match="--from 1 "):
        world.coordinator(pipeline).plan()
    assert "RESTORE" in str(audit(world.settings, pipeline).findings)
    assert names(follow(world, pipeline)) == ["TargetBehindLedger"]
    assert_right(world, pipeline)


def test_a_ledger_that_is_lost(world: World) -> None:
    """LedgerBehindTarget. The target's log has what the ledger had."""
    pipeline = one_batch(world)
    batch = world.coordinator(pipeline).ledger.state().batches[0].batch
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).ledger.uri))
    with pytest.raises(LedgerBehindTarget):
        world.coordinator(pipeline).plan()
    log = TableLog.open(world.coordinator(pipeline).tables.target)
    assert log is not None
    assert [c.metadata.batch for c in log.landed_commits(pipeline.name, 1)] == [batch]
    assert names(follow(world, pipeline)) == ["LedgerBehindTarget"]
    assert_right(world, pipeline)


@SLOW
def test_a_ledger_that_contradicts_itself(world: World) -> None:
    """LedgerConflict: another writer has put an event there."""
    pipeline = one_batch(world)
    ledger = world.coordinator(pipeline).ledger
    again = [{**row, "details": json.dumps(row["details"])} for row in ledger.rows() if row["event"] == "planned"]
    write_deltalake(str(ledger.uri), pa.Table.from_pylist(again, LEDGER_SCHEMA), mode="append")
    assert names(follow(world, pipeline, {"LedgerConflict": 1})) == ["LedgerConflict"]
    assert_right(world, pipeline)


@SLOW
def test_a_batch_of_other_ranges(world: World) -> None:
    """BatchMismatch: the ledger was replaced after an attempt had begun, and batch 1 planned otherwise."""
    pipeline = one_batch(world)
    coordinator = world.coordinator(pipeline)
    batch = coordinator.plan().batch
    world.attempt(pipeline, batch.batch_id)
    ledger = coordinator.ledger
    kept = [event for event in ledger.events() if not (isinstance(event, BatchPlanned) and event.batch == batch)]
    kept = [event for event in kept if getattr(event, "batch_id", 0) != batch.batch_id]
    shutil.rmtree(world.on_disk(ledger.uri))
    smaller = replace(batch, ranges=(replace(batch.ranges[0], end_offset=14),))
    ledger.append(lambda state: [*kept, BatchPlanned(smaller)])
    assert names(follow(world, pipeline, {"BatchMismatch": 1})) == ["BatchMismatch"]
    assert_right(world, pipeline)


@SLOW
def test_a_generation_whose_end_was_interrupted(world: World) -> None:
    """FencedGeneration."""
    pipeline = one_batch(world)
    killed = world.lakemark("reset", pipeline.name, "--reason", "x", LAKEMARK_TEST_FAULT="generation.fenced=kill")
    assert killed.returncode < 0
    assert names(follow(world, pipeline)) == ["FencedGeneration"]
    assert_right(world, pipeline)


@SLOW
def test_records_that_kafka_has_dropped(world: World) -> None:
    """OffsetsExpired."""
    pipeline = one_batch(world)
    world.delete_before(pipeline.source.topics[0], 0, 15)
    assert names(follow(world, pipeline)) == ["OffsetsExpired"]
    assert_right(world, pipeline, [record for record in world.sent if not 10 <= record.offset < 15])


@SLOW
def test_a_topic_that_was_made_anew(world: World) -> None:
    """TopicRecreated."""
    pipeline = one_batch(world)
    world.drain(pipeline)
    world.recreate_topic(pipeline.source.topics[0], 1)
    world.produce(pipeline.source.topics[0], changes(range(8, 12), 3, "again"), 1)
    assert names(follow(world, pipeline)) == ["TopicRecreated"]
    assert_right(world, pipeline)


@SLOW
@pytest.mark.parametrize("table", ["ledger", "target"])
def test_a_table_that_is_damaged(world: World, table: str) -> None:
    """TableDamaged: for the target, the advice begins with a step that no command does."""
    pipeline = one_batch(world)
    path = world.on_disk(getattr(world.coordinator(pipeline).tables, table))
    sorted((path / "_delta_log").glob("*.json"))[-1].write_bytes(b"")
    if table == "target":
        with pytest.raises(LakemarkError, match="move its folder away"):
            world.coordinator(pipeline).plan()
        path.rename(path.with_name("aside"))
        assert names(follow(world, pipeline)) == ["TargetBehindLedger"]  # which says the same
    else:
        assert names(follow(world, pipeline)) == ["TableDamaged"]
    assert_right(world, pipeline)


@SLOW
def test_a_gap(world: World) -> None:
    """RangeGap: the target went away between plan and attempt."""
    pipeline = one_batch(world)
    batch = world.coordinator(pipeline).plan().batch
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.target))
    with pytest.raises(RangeGap) as failure:
        world.attempt(pipeline, batch.batch_id)
    run, look = advised(failure.value.action, pipeline)
    assert world.lakemark(*run).returncode == 1
    assert "was replaced or rolled back" in world.lakemark(*look).stdout
    assert names(follow(world, pipeline)) == ["TargetBehindLedger"]
    assert_right(world, pipeline)


@SLOW
def test_i3_tables_that_the_file_left_out_for_a_time(world: World) -> None:
    """TargetBehindLedger: otherwise a history would show old states as the newest ones, and an archive have a hole."""
    topic, name = world.topic(partitions=1), "left_out"
    target = {"history_table": f"lake://silver/{name}_history"}
    pipeline = world.pipeline(topic, name, target=target, archive=f"lake://bronze/{name}")
    for seq in (1, 2, 3):
        if seq == 2:
            world.pipeline(topic, name)
        world.produce(topic, changes(range(10), seq), 1)
        if seq == 3:
            pipeline = world.pipeline(topic, name, target=target, archive=f"lake://bronze/{name}")
            assert {f.table for f in audit(world.settings, pipeline).findings} == {"archive", "history"}
            assert names(follow(world, pipeline)) == ["TargetBehindLedger"]
        else:
            world.run_batch(pipeline if seq == 1 else world.load(name))
    assert_right(world, pipeline)
    history, archive = world.table(pipeline, "history"), world.table(pipeline, "archive")
    assert history is not None and archive is not None
    assert as_states(read_table(history)) == states_by_key(world.sent)
    assert {row["offset"] for row in read_table(archive)} == set(range(30))
    assert audit(world.settings, pipeline, deep=True).findings == ()
