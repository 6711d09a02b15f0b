"""Frozen plans, one transaction, once, in order, fenced, settled: I1 to I6 on a real broker, real Spark, real Delta."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from deltalake import CommitProperties, Transaction

from include.lake.table_log import TableLog, landed_and_marker
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import FENCE
from include.protocol.errors import (
    BatchMismatch,
    FencedGeneration,
    OutcomeUnknownError,
    RangeGap,
    TargetBehindLedger,
)
from include.protocol.ledger_events import BatchCommitted, BatchPlanned
from include.protocol.planning import NewBatch, PendingBatch
from tests.support.commits import at_the_point, raising
from tests.support.readers import opened
from tests.support.world import World, as_dict, changes, landed_commits, newest_by_key

pytestmark = pytest.mark.on_both_lakes
ALSO_ON_S3 = pytest.mark.on_both_lakes(fast=True)  # in `make test`, too


@ALSO_ON_S3
def test_i1_a_recorded_plan_is_used_as_it_stands(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    first = world.coordinator(pipeline).plan()
    assert isinstance(first, NewBatch)
    world.produce(topic, changes(range(10), 2))
    assert world.coordinator(pipeline).plan() == PendingBatch(first.batch)
    world.attempt(pipeline, 0)
    assert {row["seq"] for row in world.rows(pipeline)} == {1}
    world.settle(pipeline, 0)
    second = world.coordinator(pipeline).plan()
    assert isinstance(second, NewBatch)
    assert [r.start_offset for r in second.batch.ranges] == [r.end_offset for r in first.batch.ranges]


@ALSO_ON_S3
def test_i2_rows_marker_and_ranges_are_one_commit(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.run_batch(pipeline)
    batch = world.coordinator(pipeline).ledger.state().batches[0].batch
    path = str(world.coordinator(pipeline).tables.target)
    marker, landed = landed_and_marker(TableLog.open(LakeUri(path)), batch)
    assert marker == 0
    assert landed is not None
    assert landed.metadata.batch == batch
    assert landed.merge.changed == 10
    before = opened(path, landed.table_version - 1)
    assert before.transaction_version(batch.app_id) is None
    assert before.file_uris() == []


def test_i3_a_batch_that_landed_changes_nothing(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    assert world.run_batch(pipeline).outcome == "applied"
    version = world.version(pipeline)
    assert world.attempt(pipeline, 0).outcome == "already_applied"
    assert world.version(pipeline) == version


def test_i3_other_ranges_under_a_landed_id_are_refused(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.run_batch(pipeline)
    ledger = world.coordinator(pipeline).ledger
    batch = ledger.state().batches[0].batch
    other = replace(batch, ranges=tuple(replace(r, end_offset=r.end_offset + 1) for r in batch.ranges))
    shutil.rmtree(world.on_disk(ledger.uri))  # a ledger that was replaced by another one
    ledger.append(lambda state: [BatchPlanned(other)])
    with pytest.raises(BatchMismatch):
        world.attempt(pipeline, 0)
    with pytest.raises(BatchMismatch):
        world.settle(pipeline, 0)


def test_i4_a_batch_before_its_predecessor_is_refused(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 10}})
    world.produce(topic, changes(range(30), 1))
    first = world.coordinator(pipeline).plan().batch
    # A ledger that says more than the target holds (the target was replaced, say).
    said = BatchCommitted(1, 0, first.fingerprint, 1, None, None, None)
    world.coordinator(pipeline).ledger.append(lambda state: [said])
    with pytest.raises(TargetBehindLedger):
        world.coordinator(pipeline).plan()
    shifted = tuple(replace(r, start_offset=r.end_offset, end_offset=r.end_offset + 5) for r in first.ranges)
    world.coordinator(pipeline).ledger.append(lambda state: [BatchPlanned(replace(first, batch_id=1, ranges=shifted))])
    with pytest.raises(RangeGap):
        world.attempt(pipeline, 1)
    assert world.rows(pipeline) == []


@ALSO_ON_S3
def test_i5_of_two_attempts_at_once_one_commits(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(200), 1))
    world.run_batch(pipeline)  # so that both race on rows, and none on the table's creation
    world.produce(topic, changes(range(200), 2))
    world.coordinator(pipeline).plan()
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(world.attempt, pipeline, 1) for _ in range(2)]
    assert sorted(a.result().outcome for a in attempts) == ["already_applied", "applied"]
    assert landed_commits(world, pipeline) == [1, 0]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


def test_i5_an_attempt_that_slept_past_its_guard_changes_nothing(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.coordinator(pipeline).plan()

    @contextmanager
    def late_session():  # opened after the guard has said "go on"
        assert world.attempt(pipeline, 0).outcome == "applied"
        with world.session() as spark:
            yield spark

    assert world.attempt(pipeline, 0, open_session=late_session).outcome == "already_applied"
    assert landed_commits(world, pipeline) == [0]


def fence(world: World, pipeline: Pipeline, batch_app_id: str) -> None:
    """What a reset does to the generation that it ends."""
    table = opened(world.coordinator(pipeline).tables.target)
    marker = CommitProperties(app_transactions=[Transaction(batch_app_id, FENCE)])
    table.create_write_transaction([], "append", table.schema(), commit_properties=marker)


@ALSO_ON_S3
def test_i5_an_ended_generation_never_lands(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.run_batch(pipeline)
    world.produce(topic, changes(range(20), 2))
    batch = world.coordinator(pipeline).plan().batch

    @contextmanager
    def fenced_meanwhile():
        fence(world, pipeline, batch.app_id)
        with world.session() as spark:
            yield spark

    with pytest.raises(FencedGeneration):  # past the guard: Delta itself ignores the write
        world.attempt(pipeline, 1, open_session=fenced_meanwhile)
    with pytest.raises(FencedGeneration):  # before: the guard
        world.attempt(pipeline, 1)
    assert {row["seq"] for row in world.rows(pipeline)} == {1}


@ALSO_ON_S3
def test_i6_a_lost_answer_is_settled_from_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.coordinator(pipeline).plan()

    def answer_lost(committed: Callable[[], None]) -> None:
        committed()
        raise ConnectionError("the answer was lost")

    at_the_point(monkeypatch, answer_lost)
    assert world.attempt(pipeline, 0).outcome == "already_applied"
    assert landed_commits(world, pipeline) == [0]


def test_i6_a_lost_commit_is_unknown_until_the_log_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.coordinator(pipeline).plan()

    with monkeypatch.context() as patched:
        at_the_point(patched, raising(ConnectionError("the connection was lost")))
        with pytest.raises(OutcomeUnknownError):
            world.attempt(pipeline, 0)
    assert isinstance(world.coordinator(pipeline).plan(), PendingBatch)
    assert world.attempt(pipeline, 0).outcome == "applied"


def test_i6_plan_settles_what_landed_without_a_word(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.coordinator(pipeline).plan()
    world.attempt(pipeline, 0)  # its settle never runs
    world.produce(topic, changes(range(20), 2))
    assert world.coordinator(pipeline).plan().batch.batch_id == 1
    assert world.coordinator(pipeline).ledger.state().committed_through == 0
