"""A pipeline in the middle of its work, and what must be true of it in the end."""

from __future__ import annotations

from typing import Any

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from tests.support.world import World, as_dict, changes, newest_by_key


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
