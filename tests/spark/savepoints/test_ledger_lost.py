"""A ledger that is lost after its pipeline went back, began as a clone or was cut over is made again of its tables."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

import pytest

from include.pipeline_file import Pipeline
from tests.spark.savepoints.test_clone import cloned
from tests.spark.savepoints.test_promote import both, promote
from tests.spark.savepoints.test_restore import REASON, command, create, three_batches
from tests.support.photos import batch_of, photo, records, whole
from tests.support.stopped import was_killed
from tests.support.world import World


def gone_back(world: World) -> Pipeline:
    pipeline, _ = three_batches(world, "lost_back", 11)
    create(world, pipeline, "s", "--at", "1")
    assert command(world, "restore", pipeline, "s", *REASON).returncode == 0
    return pipeline


def begun_as_a_clone(world: World) -> Pipeline:
    pipeline, _ = three_batches(world, "lost_clone", 12)
    create(world, pipeline, "s")
    return cloned(world, pipeline, "s", "lost_second")


def cut_over(world: World) -> Pipeline:
    pipeline, new = both(world, "lost_over", 13)
    done = promote(world, new, pipeline)
    assert done.returncode == 0, done.stderr
    return pipeline


@pytest.mark.slow
def test_a_cut_over_that_was_under_way_is_ended(world: World) -> None:
    """The target has the new rows, the other tables have not. A rebuild's own fences bring none."""
    pipeline, new = both(world, "lost_between", 14)
    killed = promote(world, new, pipeline, LAKEMARK_TEST_FAULT="generation.part_fenced=kill")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    shutil.rmtree(str(world.coordinator(pipeline).tables.ledger))
    rebuilt = world.lakemark("ledger", "rebuild", pipeline.name, "--reason", "a test")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert whole(photo(world, pipeline)) == whole(photo(world, new))
    assert world.drain(pipeline) == 0


@pytest.mark.slow
@pytest.mark.parametrize("since", [cut_over, gone_back, begun_as_a_clone])
@pytest.mark.parametrize("batches", [0, 1])
def test_it_goes_on_where_it_was(world: World, since: Callable[[World], Pipeline], batches: int) -> None:
    pipeline = since(world)
    coordinator = world.coordinator(pipeline)
    for n in range(batches):
        batch_of(world, pipeline, records(random.Random(20), 30 + n))
    was, offsets = photo(world, pipeline), coordinator.ledger.state().next_offsets
    shutil.rmtree(str(coordinator.tables.ledger))
    refused = world.lakemark("plan", pipeline.name)
    assert (refused.returncode, "ledger rebuild" in refused.stderr) == (1, True), refused.stderr
    done = world.lakemark("ledger", "rebuild", pipeline.name)
    assert done.returncode == 0, done.stderr
    assert coordinator.ledger.state().next_offsets == offsets
    assert whole(photo(world, pipeline)) == whole(was)
    batch_of(world, pipeline, records(random.Random(21), 30))
    audited = world.lakemark("audit", pipeline.name, "--deep")
    assert audited.returncode == 0, audited.stdout
