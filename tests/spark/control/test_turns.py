"""A pipeline whose small batches never pause, beside those who work long on its tables: each of them gets through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.ledger_events import BatchCommitted, TurnTaken
from spark_jobs.commands.maintenance import Maintenance
from spark_jobs.commands.promote import promote
from tests.support.waiting import wait_until
from tests.support.world import LAKEMARK, World, as_dict, changes, newest_by_key

KEYS, PART, BATCHES = 200, 40, 60


@contextmanager
def busy(world: World, pipeline: Pipeline) -> Iterator[None]:
    """Beside the block, a job changes a part of the rows again and again, a batch after the other."""
    before = len(batches(world, pipeline))
    for seq in range(10, 10 + BATCHES):
        first = seq * PART % KEYS
        world.produce(pipeline.source.topics[0], changes(range(first, first + PART), seq), 1)
    process = world.start(LAKEMARK, "run", pipeline.name, "--until-caught-up")
    try:
        wait_until(lambda: len(batches(world, pipeline)) > before + 6 or process.poll() is not None, 120)
        yield
        assert process.poll() is None, "it was not busy all the time"
    finally:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said


def batches(world: World, pipeline: Pipeline) -> list[BatchCommitted]:
    return [event for event in world.coordinator(pipeline).ledger.events() if isinstance(event, BatchCommitted)]


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    limits = {"limits": {"records_per_batch_max": PART}}
    pipeline = world.pipeline(world.topic(partitions=1), source=limits, maintenance={"small_files_max": 1})
    world.produce(pipeline.source.topics[0], changes(range(KEYS), 1), 1)
    world.drain(pipeline)
    return pipeline


def assert_right(world: World, pipeline: Pipeline) -> None:
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))


def turns(world: World, pipeline: Pipeline) -> list[TurnTaken]:
    return [event for event in world.coordinator(pipeline).ledger.events() if isinstance(event, TurnTaken)]


@pytest.mark.slow
def test_i9_optimize_gets_through_a_lane_that_never_pauses(world: World, pipeline: Pipeline) -> None:
    with busy(world, pipeline), world.session() as spark:
        done = Maintenance(lambda: spark, world.settings, pipeline, "test", lambda fact: None).run()
        assert done["tables"]["target"]["did"][:1] == ["OPTIMIZE"]
    assert_right(world, pipeline)


@pytest.mark.slow
def test_i9_a_promotion_gets_through_a_lane_that_never_pauses(world: World, pipeline: Pipeline) -> None:
    with busy(world, pipeline):
        backfills = Backfills(world.coordinator(pipeline))
        backfill = backfills.plan(BackfillRequest(into="new", records_per_chunk_max=10**6), "r", "test", "test")
        for chunk in range(len(backfill.chunks)):
            assert world.attempt(pipeline, 0, key=BatchKey(backfill.generation, chunk)).outcome == "applied"
        with world.session() as spark:
            promote(spark, world.settings, pipeline, number=backfill.number, started_by="test")
    world.drain(pipeline)
    assert_right(world, pipeline)
    assert turns(world, pipeline)


@pytest.mark.slow
def test_i9_a_chunk_by_spark_gets_through_a_lane_that_never_pauses(world: World, pipeline: Pipeline) -> None:
    """A MERGE by Spark takes many times as long as a commit of the lane, which replaces rows that it has read."""
    settings = replace(world.settings, merge_engine="spark")
    with busy(world, pipeline):
        request = BackfillRequest(batches=(0, 0), records_per_chunk_max=10**6)
        backfill = Backfills(world.coordinator(pipeline)).plan(request, "r", "test", "test")
        for chunk in range(len(backfill.chunks)):
            key = BatchKey(backfill.generation, chunk)
            assert world.attempt(pipeline, 0, key=key, settings=settings).outcome == "applied"
    assert_right(world, pipeline)
    assert turns(world, pipeline)
