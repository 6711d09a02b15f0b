"""Defects that lay in seams between two tables of a batch, one test each, on the real stack. The contract of
participants closes these seams (docs/protocol.md)."""

from __future__ import annotations

import shutil

import pytest

from include.audit.auditor import audit
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import FENCE
from include.protocol.errors import LakemarkError, OutcomeUnknownError, TargetBehindLedger
from tests.spark.changes.test_quality import CHEAP, SCHEMA, send, with_suite
from tests.spark.control.test_quarantine import PRICE, prices, quarantine, reasons
from tests.support.advice import follow
from tests.support.commits import at_the_point, raising
from tests.support.world import World, as_dict, changes, newest_by_key, read_table

pytestmark = pytest.mark.on_both_lakes


def pipeline_of(world: World, topic: str, name: str | None = None, batch: int = 10, **sections: object) -> Pipeline:
    return world.pipeline(topic, name, source={"limits": {"records_per_batch_max": batch}}, **sections)


def offsets(path: LakeUri | str | None) -> set[int]:
    return {row["offset"] for row in read_table(path or "")}


def is_told_of(world: World, pipeline: Pipeline) -> bool:
    """Whether plan or audit says that something is wrong."""
    try:
        world.coordinator(pipeline).plan()
    except LakemarkError:
        return True
    return bool(audit(world.settings, pipeline, deep=True).findings)


def all_of_it_lost(world: World) -> Pipeline:
    """The target and the ledger are lost, the archive and the quarantine are not, and Kafka has dropped the first
    records.

    What is left to do is what `ledger rebuild` says then: remove what is left of the ledger, and run the pipeline.
    """
    topic = world.topic(partitions=1)
    pipeline = pipeline_of(world, topic, batch=4, archive=f"lake://bronze/{topic}")
    world.produce(topic, [b"{", *changes(range(1, 12), 1)], 1)
    assert world.drain(pipeline) == 3
    tables = world.coordinator(pipeline).tables
    assert offsets(tables.quarantine) == {0}
    for path in (tables.target, tables.ledger):
        shutil.rmtree(world.on_disk(path))
    world.delete_before(topic, 0, 2)
    again = pipeline_of(world, topic, pipeline.name, 100, archive=f"lake://bronze/{topic}")
    world.produce(topic, [b"{", *changes(range(1, 5), 2)], 1)
    return again


@pytest.mark.slow
def test_i2_after_target_and_ledger_were_lost_all_that_is_merged_is_archived(world: World) -> None:
    pipeline = all_of_it_lost(world)
    assert [met["error"] for met in follow(world, pipeline)] == ["OffsetsExpired"], "a person gives up what is gone"
    sent = [record for record in world.sent if isinstance(record.value, dict)]
    assert as_dict(world.rows(pipeline)) == newest_by_key([record for record in sent if record.offset >= 2])
    held = offsets(world.coordinator(pipeline).tables.archive)
    assert held == {record.offset for record in world.sent} or is_told_of(world, pipeline)
    done = world.lakemark("run", pipeline.name, "--from-archive")
    assert done.returncode == 0, done.stderr
    assert as_dict(world.rows(pipeline)) == newest_by_key(sent)


@pytest.mark.slow
def test_i10_a_ledger_that_is_lost_after_both_were_lost_is_built_again_and_never_passed_by(world: World) -> None:
    pipeline = all_of_it_lost(world)
    follow(world, pipeline)
    target = TableLog.open(world.coordinator(pipeline).tables.target)
    assert target is not None
    assert target.marker(pipeline.name, 1) == FENCE, "so no attempt of the lost generation lands in the new target (I5)"
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).ledger.uri))
    world.produce(pipeline.source.topics[0], changes(range(3), 9), 1)
    [met] = follow(world, pipeline)
    assert met["error"] == "LedgerBehindTarget"
    assert world.coordinator(pipeline).ledger.state().generations[-1].origin == "commit metadata"
    kept = [record for record in world.sent if record.offset >= 2 and isinstance(record.value, dict)]
    assert as_dict(world.rows(pipeline)) == newest_by_key(kept)


@pytest.mark.slow
def test_after_target_and_ledger_were_lost_a_new_table_may_take_the_targets_place(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = pipeline_of(world, topic, archive=f"lake://bronze/{topic}")
    world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    tables = world.coordinator(pipeline).tables
    for path in (tables.target, tables.ledger):
        shutil.rmtree(world.on_disk(path))
    world.drain(pipeline)
    done = world.lakemark("backfill", pipeline.name, "--into-new-table")
    assert done.returncode == 0, done.stderr
    world.produce(topic, changes(range(2), 2), 1)
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i8_after_target_and_ledger_were_lost_the_quarantine_keeps_what_it_holds(world: World) -> None:
    pipeline = all_of_it_lost(world)
    follow(world, pipeline)
    assert offsets(world.coordinator(pipeline).tables.quarantine) == {0, 12}


@pytest.mark.parametrize(
    "statement",
    [
        "RESTORE TABLE {} TO VERSION AS OF 1",
        pytest.param(
            "CREATE OR REPLACE TABLE {0} USING delta AS SELECT * FROM {0} WHERE id < 5", marks=pytest.mark.slow
        ),
    ],
    ids=["restore", "replace"],
)
def test_i3_a_target_that_is_rolled_back_while_a_batch_is_planned_is_noticed(world: World, statement: str) -> None:
    topic = world.topic(partitions=1)
    pipeline = pipeline_of(world, topic)
    world.produce(topic, [*changes(range(10), 1), *changes(range(10, 20), 1), *changes(range(20, 30), 1)], 1)
    for _ in range(2):
        world.run_batch(pipeline)
    world.coordinator(pipeline).plan()
    with world.session() as spark:
        spark.sql(statement.format(f"delta.`{world.coordinator(pipeline).tables.target}`"))
    assert len(world.rows(pipeline)) < 20
    noticed = False
    try:
        world.attempt(pipeline, 2)
        world.settle(pipeline, 2)
        world.coordinator(pipeline).plan()
    except TargetBehindLedger:
        noticed = True
    assert noticed or as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


def test_i3_an_attempt_does_not_land_on_a_target_that_was_rolled_back_since_the_plan(world: World) -> None:
    """What lands over it would hide it from whoever reads the log later."""
    topic = world.topic(partitions=1)
    pipeline = pipeline_of(world, topic)
    world.produce(topic, [*changes(range(10), 1), *changes(range(10, 20), 1)], 1)
    world.run_batch(pipeline)
    world.coordinator(pipeline).plan()
    with world.session() as spark:
        spark.sql(f"RESTORE delta.`{world.coordinator(pipeline).tables.target}` TO VERSION AS OF 0").collect()
    version = world.version(pipeline)
    with pytest.raises(TargetBehindLedger, match="a RESTORE rolled the target back"):
        world.attempt(pipeline, 1)
    assert world.version(pipeline) == version


def test_i3_a_target_that_is_lost_in_a_fresh_generation_is_noticed(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = pipeline_of(world, topic)
    world.produce(topic, changes(range(10), 1), 1)
    world.run_batch(pipeline)
    done = world.lakemark("reset", pipeline.name, "--reason", "test")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.target))
    world.produce(topic, changes(range(5), 2), 1)
    noticed = False
    try:
        world.drain(pipeline)
    except TargetBehindLedger:
        noticed = True
    assert noticed or as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


@pytest.mark.slow
def test_i8_a_replay_that_a_restore_has_taken_away_is_pending_again(world: World) -> None:
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2})
    world.run_batch(pipeline)
    landed = world.version(pipeline)
    pipeline = with_suite(world, again=pipeline)
    quarantine(world, "replay", pipeline.name)
    assert prices(world, pipeline) == {1: 500, 2: 1}
    with world.session() as spark:
        spark.sql(f"RESTORE TABLE delta.`{world.coordinator(pipeline).tables.target}` TO VERSION AS OF {landed}")
    with pytest.raises(TargetBehindLedger) as failure:
        world.coordinator(pipeline).plan()
    command = failure.value.action.split("`")[1].replace("...", "restored").split()
    done = world.lakemark(*command[1:])
    assert done.returncode == 0, done.stderr
    world.drain(pipeline)
    assert prices(world, pipeline).get(1) == 500 or reasons(world, pipeline) == {PRICE: {"pending": 1}}


@pytest.mark.slow
def test_i8_a_record_of_a_topic_made_anew_is_pending_whatever_became_of_the_old_ones(world: World) -> None:
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 1, "price": 500})
    world.run_batch(pipeline)
    quarantine(world, "discard", pipeline.name, "--reason", "a test order")
    world.recreate_topic(pipeline.source.topics[0], 1)
    send(world, pipeline, {"id": 2, "seq": 2, "price": 600})
    done = world.lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "made anew")
    assert done.returncode == 0, done.stderr
    world.run_batch(pipeline)
    assert prices(world, pipeline) == {}
    assert reasons(world, pipeline)[PRICE].get("pending") == 1


def test_i11_a_history_beside_the_target_has_no_row_that_the_retry_has_set_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic(partitions=1)
    tables = {"table": f"lake://silver/{topic}", "history_table": f"lake://silver/{topic}_history"}
    sections = {"source": {"schema": SCHEMA}, "target": tables}
    pipeline = world.pipeline(topic, **sections)
    send(world, pipeline, {"id": 1}, {"id": 2, "price": 500})

    with monkeypatch.context() as patched, pytest.raises(OutcomeUnknownError):
        at_the_point(patched, raising(ConnectionError("gone")))
        world.run_batch(pipeline)
    world.write_suite("shop", [CHEAP])
    pipeline = world.pipeline(topic, pipeline.name, **sections, quality={"suite": "shop"})
    assert world.run_batch(pipeline) is not None
    assert sorted(as_dict(world.rows(pipeline))) == [1] and len(world.quarantine(pipeline)) == 1
    shown = {row["id"] for row in read_table(world.table(pipeline, "history")) if row["valid_from"]}
    assert shown == {1} or audit(world.settings, pipeline, deep=True).findings != ()


@pytest.mark.parametrize("table", ["history", pytest.param("archive", marks=pytest.mark.slow)])
def test_rows_that_were_taken_out_of_a_table_beside_the_target_are_found(world: World, table: str) -> None:
    topic = world.topic(partitions=1)
    target = {"table": f"lake://silver/{topic}", "history_table": f"lake://silver/{topic}_history"}
    pipeline = pipeline_of(world, topic, target=target, archive=f"lake://bronze/{topic}")
    world.produce(topic, changes(range(10), 1), 1)
    world.run_batch(pipeline)
    path, column = world.table(pipeline, table), {"history": "id", "archive": "offset"}[table]
    assert audit(world.settings, pipeline, deep=True).findings == ()
    with world.session() as spark:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {column} = 3")
    assert len(read_table(path)) == 9
    assert world.lakemark("audit", pipeline.name, "--deep").returncode == 1
