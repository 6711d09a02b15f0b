"""`merge_every`: batches land in the archive one by one, several are merged by one MERGE, on a real broker."""

from __future__ import annotations

import json
import shutil

import pytest

from include.audit.auditor import audit
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import BatchKey
from include.protocol.counts import BatchCounts
from include.protocol.errors import FencedGeneration, OutcomeUnknownError, TableDamaged, TargetBehindLedger
from include.protocol.planning import Idle
from spark_jobs.commands.unmerged import as_if_merged
from tests.support.advice import follow
from tests.support.commits import at_the_point, raising
from tests.support.merge_every import archived, assert_right, lazy, positions, run, send
from tests.support.older_form import create_in_older_form, rewrite_in_older_form
from tests.support.readers import opened
from tests.support.world import World, as_dict, changes, newest_by_key


def test_several_batches_are_merged_by_one(world: World) -> None:
    pipeline = lazy(world)
    landing = pipeline.landing
    assert landing is not None
    send(world, pipeline, 3, 1)
    for waiting in (1, 2):
        assert world.run_batch(landing) is not None
        assert world.counts(landing) == BatchCounts(
            read=10, applied=10, superseded=0, stale=0, quarantined=0, filtered=0
        )
        assert len(archived(world, pipeline)) == 10 * waiting
        assert isinstance(world.coordinator(pipeline).plan(), Idle)
        assert world.rows(pipeline) == []
    _, merged = run(world, pipeline)
    assert (merged["pipeline"], merged["batch_id"]) == (pipeline.name, 0)
    assert (merged["counts"]["read"], merged["counts"]["superseded"], merged["counts"]["applied"]) == (30, 18, 12)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert_right(world, pipeline)


@pytest.mark.slow
def test_what_waits_is_merged_however_little_once_nothing_new_comes(world: World) -> None:
    pipeline = lazy(world)
    landing = pipeline.landing
    assert landing is not None
    send(world, pipeline, 3, 1)
    run(world, pipeline, "--until-caught-up")
    assert run(world, pipeline) == []
    send(world, pipeline, 1, 7)
    world.produce(pipeline.source.topics[0], [b"{", None], 1)
    assert [result["pipeline"] for result in run(world, pipeline)] == [landing.name]
    halves = [result["pipeline"] for result in run(world, pipeline)]
    assert halves == [landing.name]  # the last two records
    [rest] = run(world, pipeline)
    assert (rest["pipeline"], rest["counts"]["quarantined"]) == (pipeline.name, 2)
    assert_right(world, pipeline)
    status = world.lakemark("status", pipeline.name).stdout
    assert f"{landing.name}: committed through batch 4" in status
    assert f"{pipeline.name}: committed through batch 1" in status


@pytest.mark.slow
@pytest.mark.parametrize("is_older", [False, True], ids=["", "a table of before"])
def test_readers_can_see_what_is_not_merged(world: World, is_older: bool) -> None:
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    pipeline = lazy(world, change={"delete_when": "op = 'd'"}, quality={"suite": "named"})
    topic, target = pipeline.source.topics[0], world.coordinator(pipeline).tables.target
    if is_older:
        with world.session() as spark:
            create_in_older_form(spark, target, TableSpec.of_target(pipeline))
    send(world, pipeline, 1, 1)
    run(world, pipeline, "--until-caught-up")
    if is_older:
        with world.session() as spark:
            rewrite_in_older_form(spark, target, TableSpec.of_target(pipeline))
    before = opened(world.coordinator(pipeline).tables.target).version()
    waiting = [*changes(range(2), 9, "new"), *changes(range(2, 3), 9, op="d"), *changes(range(3, 4), 0, "old")]
    world.produce(topic, [*waiting, {"id": 4, "seq": 9, "op": "u"}, b"{"], 1)
    assert len(run(world, pipeline)) == 1
    with world.session() as spark:
        rows = [row.asDict(recursive=True) for row in as_if_merged(spark, world.settings, pipeline).collect()]
    named = [record for record in world.sent if isinstance(record.value, dict) and "name" in record.value]
    gone = {key: row for key, row in newest_by_key(named).items() if row["op"] != "d"}
    assert as_dict(rows) == gone
    assert opened(world.coordinator(pipeline).tables.target).version() == before
    asked = world.lakemark("query", pipeline.name, "SELECT name FROM fresh WHERE id = 1", "--json")
    assert json.loads(asked.stdout) == [{"name": "new1"}]
    run(world, pipeline, "--until-caught-up")
    with world.session() as spark:
        assert as_if_merged(spark, world.settings, pipeline).count() == len(gone)


@pytest.mark.slow
def test_i5_of_two_attempts_at_a_landing_one_adds_its_records(world: World) -> None:
    pipeline = lazy(world)
    landing = pipeline.landing
    assert landing is not None
    send(world, pipeline, 1, 1)
    world.coordinator(landing).plan()
    assert world.attempt(landing, 0).outcome == "applied"
    assert world.attempt(landing, 0).outcome == "already_applied"
    world.settle(landing, 0)
    assert world.lakemark("reset", landing.name, "--reason", "test").returncode == 0
    with pytest.raises(FencedGeneration):
        world.attempt(landing, 0, key=BatchKey(1, 0))  # of the generation that has ended
    assert_right(world, pipeline)


@pytest.mark.slow
def test_i7_what_kafka_has_dropped_is_merged_again_from_the_archive(world: World) -> None:
    pipeline = lazy(world)
    send(world, pipeline, 4, 1)
    run(world, pipeline, "--until-caught-up")
    world.delete_before(pipeline.source.topics[0], 0, 40)
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.target))
    assert "TargetBehindLedger" in world.lakemark("run", pipeline.name).stderr
    done = world.lakemark("reset", pipeline.name, "--from", "earliest", "--reason", "lost")
    assert done.returncode == 0, done.stderr
    assert_right(world, pipeline, deep=False)


@pytest.mark.slow
def test_i2_a_replace_in_the_archive_leaves_the_landings_rows_alone(world: World) -> None:
    """Both halves number their batches alike: generation 1, batch 1 is one of each."""
    topic = world.topic(partitions=1)
    archive = f"lake://bronze/{topic}"
    eager = world.pipeline(topic, archive=archive)
    send(world, eager, 1, 1)
    world.run_batch(eager)
    send(world, eager, 1, 2)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OutcomeUnknownError):
        at_the_point(patched, raising(ConnectionError("gone")))
        world.run_batch(eager)
    pipeline = world.pipeline(topic, eager.name, archive=archive, merge_every=2)
    for first in (3, 4):
        run(world, pipeline, "--until-caught-up")
        send(world, pipeline, 1, first)
    run(world, pipeline, "--until-caught-up")
    eager = world.pipeline(topic, eager.name, archive=archive)
    send(world, eager, 1, 5)
    world.run_batch(eager)
    assert set(archived(world, eager)) == set(positions(world.sent))
    assert audit(world.settings, eager).findings == ()
    done = world.lakemark("run", eager.name, "--from-archive")
    assert done.returncode == 0, done.stderr  # it is whole, whoever has archived what


@pytest.mark.slow
def test_i10_either_halfs_ledger_is_made_anew(world: World) -> None:
    pipeline = lazy(world)
    send(world, pipeline, 4, 1)
    run(world, pipeline, "--until-caught-up")
    send(world, pipeline, 2, 5)
    run(world, pipeline)
    for half in pipeline.halves:
        ledger = world.on_disk(world.coordinator(half).ledger.uri)
        sorted((ledger / "_delta_log").glob("*.json"))[-1].write_bytes(b"")
        with pytest.raises(TableDamaged):
            world.coordinator(half).plan()
        done = world.lakemark("ledger", "rebuild", half.name, "--json")
        assert json.loads(done.stdout)["origin"] == "commit metadata", done.stderr
    assert_right(world, pipeline)


@pytest.mark.slow
def test_i10_an_archive_that_is_rolled_back_or_gone_stops_both_halves(world: World) -> None:
    pipeline = lazy(world)
    landing = pipeline.landing
    assert landing is not None
    send(world, pipeline, 2, 1)
    for _ in range(2):
        run(world, pipeline)
    path = world.on_disk(world.coordinator(pipeline).tables.archive or "")
    path.rename(aside := path.with_name("aside"))
    for half in (landing, pipeline):
        with pytest.raises(TargetBehindLedger):
            world.coordinator(half).plan()
    aside.rename(path)
    with world.session() as spark:
        version = opened(path).version()
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version - 1}")
    for half in (landing, pipeline):
        with pytest.raises(TargetBehindLedger, match="RESTORE"):
            world.coordinator(half).plan()
    assert world.lakemark("reset", landing.name, "--from", "1", "--reason", "rolled back").returncode == 0
    assert_right(world, pipeline)


@pytest.mark.slow
def test_a_landing_that_reads_again_changes_nothing_in_the_target(world: World) -> None:
    pipeline = lazy(world)
    landing = pipeline.landing
    assert landing is not None
    send(world, pipeline, 3, 1)
    run(world, pipeline, "--until-caught-up")
    assert world.lakemark("reset", landing.name, "--from", "earliest", "--reason", "test").returncode == 0
    assert isinstance(world.coordinator(pipeline).plan(), Idle)  # the landing is behind what was merged
    rows = as_dict(world.rows(pipeline))
    send(world, pipeline, 1, 9)
    run(world, pipeline, "--until-caught-up")
    sent = world.sent_to(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(sent) != rows
    assert sorted(set(archived(world, pipeline))) == positions(sent)
    commits = world.coordinator(pipeline).ledger.state().batches
    assert [record.batch.width for record in commits] == [30, 10]  # nothing was merged twice
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_topics_that_begin_late_and_backfills_of_the_archive(world: World) -> None:
    topic = world.topic(partitions=1)
    world.produce(topic, changes(range(5), 1, "before"), 1)
    source = {"limits": {"records_per_batch_max": 10}, "start": "latest"}
    pipeline = world.pipeline(topic, source=source, archive=f"lake://bronze/{topic}", merge_every=2)
    assert run(world, pipeline) == []
    world.sent.clear()
    send(world, pipeline, 2, 3)
    assert_right(world, pipeline, deep=False)
    [record] = world.coordinator(pipeline).ledger.state().batches
    assert [r.start_offset for r in record.batch.ranges] == [5]
    done = world.lakemark("backfill", pipeline.name, "--from-archive")
    assert done.returncode == 0, done.stderr
    assert_right(world, pipeline, deep=False)


@pytest.mark.slow
def test_i7_what_had_landed_of_a_topic_that_was_made_anew_is_merged(world: World) -> None:
    """After the steps that the errors name, all of it is merged."""
    pipeline = lazy(world, merge_every=9)
    send(world, pipeline, 2, 1)
    for _ in range(2):
        run(world, pipeline)
    assert world.rows(pipeline) == []
    world.recreate_topic(pipeline.source.topics[0], 1)
    send(world, pipeline, 1, 7)
    assert [(e["error"], e["where"].split(",")[0]) for e in follow(world, pipeline)] == [
        ("TopicRecreated", f"{pipeline.name}__landing"),
        ("TopicRecreated", pipeline.name),
    ]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert len(as_dict(world.rows(pipeline))) == 12
