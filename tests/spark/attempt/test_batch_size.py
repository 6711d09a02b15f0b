"""Batches of a wanted duration, from a real backlog."""

from __future__ import annotations

import pytest

from include.protocol.batch_size import LEAST_OFFSETS
from include.protocol.planning import NewBatch
from tests.support.world import World, as_dict, changes, newest_by_key


@pytest.mark.slow
def test_the_time_that_batches_took_makes_the_size_of_the_next(world: World) -> None:
    topic = world.topic(partitions=2)
    limits = {"records_per_batch_max": 25_000, "seconds_per_batch": 3600}
    pipeline = world.pipeline(topic, source={"limits": limits})
    sent = changes(range(40_000), 1)
    world.produce(topic, sent, 2)

    widths = []
    for _ in range(2):
        plan = world.coordinator(pipeline).plan()
        assert isinstance(plan, NewBatch)
        widths.append(plan.batch.width)
        world.run_batch(pipeline)
    assert widths == [LEAST_OFFSETS, 25_000], "as few as are cheap; then an hour's, as far as the file allows"

    [*_, last] = world.coordinator(pipeline).ledger.state().batches
    took = sum(last.attempts[-1].phase_seconds.values())
    assert last.commit is not None
    assert last.commit.attempt_seconds == round(took, 3)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
