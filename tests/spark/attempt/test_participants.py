"""Tables before the point, on the real stack: what an attempt has left there that never reached the point, or that came
after it, is taken back (I11)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from include.audit.auditor import audit
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import OutcomeUnknownError, RetryableError, TableDamaged, TargetBehindLedger
from include.protocol.planning import Idle, NewBatch
from include.protocol.ranges import OffsetRange
from spark_jobs.attempt import landing
from tests.support.advice import follow
from tests.support.commits import at_every_commit, at_the_point, raising
from tests.support.readers import opened
from tests.support.stopped import resumed, stopped
from tests.support.world import World, as_dict, as_states, changes, newest_by_key, read_table, states_by_key

pytestmark = pytest.mark.on_both_lakes

GONE = ConnectionError("gone")


def with_tables(world: World, topic: str, name: str | None = None, **sections: object) -> Pipeline:
    """A pipeline with a history beside its target; rows with names in `b` go to a route's table, which has patches."""
    return world.pipeline(topic, name, target={"history_table": f"lake://silver/{topic}_history"}, **sections)


def with_route(world: World, topic: str, name: str | None = None, **sections: object) -> Pipeline:
    routes = [{"table": f"lake://silver/{topic}_b", "when": "op = 'b'"}]
    return world.pipeline(topic, name, target={"routes": routes}, **sections)


def left_by_a_lost_attempt(world: World, pipeline: Pipeline) -> None:
    """The attempt lands everything before the point, and not the point."""
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OutcomeUnknownError):
        at_the_point(patched, raising(GONE))
        world.run_batch(pipeline)


@pytest.mark.parametrize("absent", [pytest.param("nulls", marks=pytest.mark.slow), "keep"])
def test_i11_a_routes_table_has_no_row_that_a_retry_leaves_out(world: World, absent: str) -> None:
    """Rows that the lost attempt has changed are what they were before; rows that it has added are gone."""
    topic = world.topic(partitions=1)
    change = {"absent": absent}
    pipeline = with_route(world, topic, change=change)
    before = world.produce(topic, changes(range(4), 1, op="b"), 1)
    world.run_batch(pipeline)
    world.produce(topic, [*changes(range(2), 2, "out", op="b"), *changes(range(7, 9), 2, "out", op="b")], 1)
    kept = world.produce(topic, changes(range(3, 5), 3, op="b"), 1)
    left_by_a_lost_attempt(world, pipeline)
    table = world.table(pipeline, pipeline.target.routes[0].table)
    assert as_dict(read_table(table)) == newest_by_key(world.sent)

    pipeline = with_route(world, topic, pipeline.name, change=change, source={"filter": "name NOT LIKE 'out%'"})
    assert world.run_batch(pipeline) is not None
    assert as_dict(read_table(table)) == newest_by_key([*before, *kept])


@pytest.mark.slow
def test_i11_the_same_program_leaves_what_it_has_landed(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    world.produce(topic, changes(range(4), 1), 1)
    left_by_a_lost_attempt(world, pipeline)
    landed = read_table(world.table(pipeline, "history"))
    assert world.run_batch(pipeline) is not None
    state = world.coordinator(pipeline).ledger.state()
    assert state.positions["history"].revision == 0
    assert read_table(world.table(pipeline, "history")) == landed


@pytest.mark.slow
def test_i11_what_lands_after_the_point_is_taken_back_without_a_further_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts with different programs: the second one writes the history between the first one's history and its
    point; the write arrives after the point."""
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, [*changes(range(4), 2, "out"), *changes(range(2), 3)], 1)
    world.coordinator(pipeline).plan()
    decided, landed = Event(), Event()

    def late(committed: Callable[[], None], metadata: CommitMetadata) -> None:
        if metadata.role == "history":
            decided.set()
            assert landed.wait(60)
        committed()

    def first_point(committed: Callable[[], None]) -> None:
        other = with_tables(world, topic, pipeline.name, source={"filter": "name NOT LIKE 'out%'"})
        first.undo()
        with monkeypatch.context() as second, ThreadPoolExecutor(1) as pool:
            at_every_commit(second, late)
            running = pool.submit(world.attempt, other, 1)
            assert decided.wait(60), running.result()
            committed()
            landed.set()
            assert running.result().outcome == "already_applied"

    with monkeypatch.context() as first:
        at_the_point(first, first_point)
        world.attempt(pipeline, 1)
    world.settle(pipeline, 1)
    pipeline = with_tables(world, topic, pipeline.name)
    history = world.table(pipeline, "history")
    assert as_states(read_table(history)) != states_by_key(world.sent)
    in_rows = [f for f in audit(world.settings, pipeline, deep=True).findings if "version" in f.where]
    assert {f.table for f in in_rows} == {"history"}
    assert all(f"`lakemark run {pipeline.name}` makes the repair" in f.action for f in in_rows), "no other writer"

    plan = world.coordinator(pipeline).plan()
    assert isinstance(plan, NewBatch)
    assert (plan.batch.ranges, plan.batch.mends) == ((), ("history",))
    world.run_batch(pipeline)
    assert as_states(read_table(history)) == states_by_key(world.sent)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert isinstance(world.coordinator(pipeline).plan(), Idle)
    assert world.lakemark("audit", pipeline.name).returncode == 0


@pytest.mark.slow
def test_i11_a_chunk_waits_for_a_live_batch_that_has_begun_to_land(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(4), 2, "out"), 1)
    backfills = Backfills(world.coordinator(pipeline))
    request = BackfillRequest(ranges=(OffsetRange(topic, 0, 0, 4),))
    backfill = backfills.plan(request, "r", "test", "test")
    left_by_a_lost_attempt(world, pipeline)
    monkeypatch.setattr(landing, "_WAIT_SECONDS", 0.0)
    with pytest.raises(RetryableError, match="has begun to land here, and has not ended"):
        world.attempt(pipeline, 0, key=BatchKey(-backfill.number, 0))
    world.run_batch(pipeline)
    assert world.attempt(pipeline, 0, key=BatchKey(-backfill.number, 0)).outcome == "applied"
    history = world.table(pipeline, "history")
    assert as_states(read_table(history)) == states_by_key(world.sent)


def test_i3_a_table_before_the_point_that_is_replaced_is_noticed(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    history = world.table(pipeline, "history")
    with world.session() as spark:
        spark.sql(
            f"CREATE OR REPLACE TABLE delta.`{history}` USING delta AS SELECT * FROM delta.`{history}` WHERE id < 2"
        )
    with pytest.raises(TargetBehindLedger, match="not as the last batch left it"):
        world.coordinator(pipeline).plan()
    assert (
        world.lakemark("reset", pipeline.name, "--accept", "history", "--reason", "it is as it shall be").returncode
        == 0
    )
    assert isinstance(world.coordinator(pipeline).plan(), Idle)
    report = audit(world.settings, pipeline)
    assert report.findings == ()
    assert [line for line in report.on_record if line.startswith("history, version ")]


@pytest.mark.slow
def test_i3_a_quarantine_that_is_lost_while_a_batch_is_planned_is_noticed_though_the_batch_sets_nothing_aside(
    world: World,
) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, [*changes(range(4), 1), b"{"], 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(4), 2), 1)
    world.coordinator(pipeline).plan()
    shutil.rmtree(world.on_disk(world.coordinator(pipeline).tables.quarantine))
    with pytest.raises(TargetBehindLedger, match="quarantine"):
        world.attempt(pipeline, 1)
    follow(world, pipeline)
    assert len(world.quarantine(pipeline)) == 1
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i11_a_history_that_the_file_left_out_for_a_batch_is_mended_when_it_comes_back(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    first = world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(4), 2, "out"), 1)
    left_by_a_lost_attempt(world, pipeline)
    filtered = {"source": {"filter": "name NOT LIKE 'out%'"}}
    world.run_batch(world.pipeline(topic, pipeline.name, **filtered))
    pipeline = with_tables(world, topic, pipeline.name, **filtered)
    with pytest.raises(TargetBehindLedger, match="left this table out"):
        world.coordinator(pipeline).plan()
    assert world.lakemark("reset", pipeline.name, "--from", "1", "--reason", "left out").returncode == 0
    last = world.produce(topic, changes(range(1), 5), 1)
    world.run_batch(pipeline)
    history = world.table(pipeline, "history")
    assert as_states(read_table(history)) == states_by_key([*first, *last]), "nothing of the lost attempt"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["moved away", "as it is"])
def test_i11_a_vacuum_by_hand_before_a_replace_leads_out_by_what_the_error_says(world: World, command: str) -> None:
    topic = world.topic(partitions=1)
    pipeline = with_tables(world, topic)
    first = world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    out = world.produce(topic, changes(range(4), 2, "out"), 1)
    left_by_a_lost_attempt(world, pipeline)
    history = world.table(pipeline, "history")
    opened(history).vacuum(0, dry_run=False, enforce_retention_duration=False)
    pipeline = with_tables(world, topic, pipeline.name, source={"filter": "name NOT LIKE 'out%'"})
    with pytest.raises(TableDamaged, match="history, version") as failure:
        world.run_batch(pipeline)
    assert f"move the folder {history} away" in failure.value.action
    if command == "moved away":
        world.on_disk(history).rename(world.on_disk(f"{history}_away"))
    [met] = follow(world, pipeline, {"TableDamaged": 1, "TargetBehindLedger": 0})
    rows = as_states(read_table(history))
    assert rows == states_by_key(first if command == "moved away" else [*first, *out])
    assert met["error"] == ("TargetBehindLedger" if command == "moved away" else "TableDamaged")


@pytest.mark.slow
def test_a_chunk_writes_nothing_after_its_backfill_was_cancelled_and_what_it_left_is_told(
    world: World, zombies: list
) -> None:
    topic = world.topic(partitions=1)
    filtered = {"source": {"filter": "name NOT LIKE 'out%'"}}
    pipeline = with_tables(world, topic, **filtered)
    world.produce(topic, [*changes(range(4), 1), *changes(range(4), 2, "out"), *changes(range(4), 3)], 1)
    world.run_batch(pipeline)
    good = [r for r in world.sent if not r.value["name"].startswith("out")]
    history = world.table(pipeline, "history")
    for fault in ("attempt.part_landed=stop@1", "attempt.before_merge=kill"):  # before the history, and after it
        pipeline = with_tables(world, topic, pipeline.name)
        planned = Backfills(world.coordinator(pipeline)).plan(
            BackfillRequest(ranges=(OffsetRange(topic, 0, 0, 12),)), fault, "test", "test"
        )
        chunk = world.job(pipeline, BatchKey(-planned.number, 0), LAKEMARK_TEST_FAULT=fault)
        job = stopped(chunk) if "stop" in fault else chunk.wait(300)
        done = world.lakemark("backfill", pipeline.name, "--cancel", str(planned.number))
        assert done.returncode == 0, done.stderr
        pipeline = with_tables(world, topic, pipeline.name, **filtered)
        if "stop" in fault:
            assert "FencedGeneration" in resumed(chunk, job)[1]
            assert as_states(read_table(history)) == states_by_key(good)
            assert audit(world.settings, pipeline, deep=True).findings == ()
    [finding] = audit(world.settings, pipeline).findings
    assert "backfill 2 was cancelled" in finding.what
