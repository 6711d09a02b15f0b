"""Maintenance on real tables: what it wins, and that no reader, no audit and no backfill is misled by it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from include.audit.auditor import audit
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.lake.delta_tables import open_table, query
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.protocol.maintenance import PURGED, PurgeMark, purged_from
from include.protocol.ranges import OffsetRange
from spark_jobs.commands.maintenance import Maintenance
from tests.support.world import World, as_dict, changes, newest_by_key

AT_ONCE = 1e-9  # days


def maintain(world: World, pipeline: Pipeline, **options: str) -> dict[str, Any]:
    with world.session() as spark:
        for name, value in options.items():
            spark.conf.set(name, value)
        report = Maintenance(lambda: spark, world.settings, pipeline, "test", lambda fact: None).run()
    return json.loads(json.dumps(report))  # as the job reports it


def tombstones(world: World, pipeline: Pipeline) -> int:
    table = open_table(world.coordinator(pipeline).tables.target)
    return query(table, "select count(*) as n from t where _lakemark['deleted']")[0]["n"]


def marks(world: World, pipeline: Pipeline) -> tuple[PurgeMark, ...]:
    table = open_table(world.coordinator(pipeline).tables.target)
    return purged_from(table.metadata().configuration)


def assert_right(world: World, pipeline: Pipeline) -> None:
    newest = newest_by_key(record for record in world.sent if isinstance(record.value, dict))
    assert as_dict(world.rows(pipeline)) == {i: row for i, row in newest.items() if row["op"] != "d"}
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i9_files_and_tombstones_go_and_nothing_that_a_reader_sees(world: World) -> None:
    topic = world.topic(partitions=1)
    rules = {"small_files_max": 2, "purge_tombstones_after_days": AT_ONCE}
    pipeline = world.pipeline(topic, maintenance=rules, change={"delete_when": "op = 'd'"})
    for seq in range(1, 4):
        world.produce(topic, changes(range(10 * seq, 10 * seq + 20), seq), 1)
        world.run_batch(pipeline)
    world.produce(topic, [{"id": i, "seq": 9, "name": None, "op": "d"} for i in range(10, 15)], 1)
    world.run_batch(pipeline)
    assert tombstones(world, pipeline) == 5

    coordinator = world.coordinator(pipeline)
    waiting = Backfills(coordinator).plan(BackfillRequest(batches=(0, 0)), "r1", "", "test")
    won = maintain(world, pipeline)["tables"]["target"]
    assert won["did"][0] == "left the tombstones: a backfill is under way, or a reset"
    assert (tombstones(world, pipeline), marks(world, pipeline)) == (5, ())
    Backfills(coordinator).cancel(waiting.number, "test")

    won = maintain(world, pipeline)["tables"]["target"]
    assert won["did"][0] == "purged tombstones"
    assert tombstones(world, pipeline) == 0
    assert_right(world, pipeline)

    topic_id = world.coordinator(pipeline).ledger.state().topic_ids[topic]
    assert marks(world, pipeline) == (PurgeMark(topic, topic_id, 0, 65),)

    # Nothing is read again into the table itself, and what the error says instead works.
    for span in ((0, 30), (0, 65), (60, 65)):
        with pytest.raises(TerminalError, match="rows that are deleted could come back") as refused:
            Backfills(coordinator).plan(BackfillRequest(ranges=[OffsetRange(topic, 0, *span)]), f"r{span}", "", "test")
    done = world.lakemark("reset", pipeline.name, "--from", "1", "--reason", "test")
    assert (done.returncode, "rows that are deleted could come back" in done.stderr) == (1, True), done
    [command] = re.findall(r"`lakemark (backfill [^`]*)`", refused.value.action)
    done = world.lakemark(*command.split())
    assert done.returncode == 0, done
    assert (tombstones(world, pipeline), marks(world, pipeline)) == (5, ())
    world.drain(pipeline)
    assert_right(world, pipeline)
    again = Backfills(coordinator).plan(BackfillRequest(ranges=[OffsetRange(topic, 0, 0, 30)]), "again", "", "test")
    assert world.attempt(pipeline, 0, key=again.batch(0).key).outcome == "applied"
    Backfills(coordinator).end(again.number, "applied", "test")
    assert_right(world, pipeline)
    won = maintain(world, pipeline)["tables"]["target"]
    assert (won["did"][0], tombstones(world, pipeline)) == ("purged tombstones", 0)
    assert_right(world, pipeline)


def test_i9_marks_of_a_topic_that_is_gone_purge_no_young_tombstone(world: World) -> None:
    topic = world.topic(partitions=1)
    rules = {"purge_tombstones_after_days": 10}
    pipeline = world.pipeline(topic, maintenance=rules, change={"delete_when": "op = 'd'"})
    world.produce(topic, changes(range(20), 1), 1)
    world.produce(topic, [{"id": i, "seq": 9, "name": None, "op": "d"} for i in range(5)], 1)
    world.run_batch(pipeline)
    left_over = json.dumps([{"topic": topic, "partition": 0, "offset": 1000}])
    with world.session() as spark:
        target = str(world.coordinator(pipeline).tables.target)
        spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES ('{PURGED}' = '{left_over}')").collect()
    won = maintain(world, pipeline)["tables"]["target"]
    assert (won["did"], tombstones(world, pipeline)) == ([], 5)
    assert_right(world, pipeline)


def test_what_a_cancelled_backfill_began_is_removed(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1), 1)
    world.run_batch(pipeline)
    coordinator = world.coordinator(pipeline)
    planned = Backfills(coordinator).plan(BackfillRequest(into="new"), "r1", "", "test")
    begun = coordinator.tables.target_of(planned)
    assert world.attempt(pipeline, 0, key=planned.batch(0).key).outcome == "applied"
    Backfills(coordinator).cancel(planned.number, "test")
    assert maintain(world, pipeline)["removed"] == [str(begun)]
    assert open_table(begun) is None
    assert maintain(world, pipeline)["removed"] == []
    assert_right(world, pipeline)


def test_small_files_become_few_beside_the_rest_of_life(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, maintenance={"small_files_max": 1})
    for seq in range(1, 4):
        world.produce(topic, [*changes(range(20 * seq, 20 * seq + 20), seq), b"no json"], 1)
        world.run_batch(pipeline)
    won = maintain(world, pipeline)["tables"]
    assert [won[role]["did"] for role in ("target", "quarantine")] == [["OPTIMIZE"]] * 2
    assert [won[role]["after"]["files"] for role in ("target", "quarantine")] == [1, 1]
    assert won["ledger"]["did"] == ["checkpoint"]
    assert maintain(world, pipeline)["tables"]["target"]["did"] == []  # nothing more is due
    # As if a week had gone by: Delta refuses to keep less unless it is told not to.
    rules = pipeline.maintenance.model_copy(update={"vacuum_after_hours": 0.0})
    careless = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    won = maintain(world, pipeline.model_copy(update={"maintenance": rules}), **careless)["tables"]["target"]
    assert won["did"] == ["VACUUM"]
    assert won["after"]["disk_bytes"] < won["before"]["disk_bytes"]
    world.produce(topic, changes(range(30), 9), 1)
    assert world.run_batch(pipeline).outcome == "applied"
    assert_right(world, pipeline)
