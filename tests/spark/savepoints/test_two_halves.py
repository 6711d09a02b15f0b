"""Savepoints of a pipeline that merges several batches by one: its half goes back, and the archive stays."""

from __future__ import annotations

import pytest

from include.checkpoints.reading import Cut, query_at
from tests.spark.savepoints.test_restore import REASON, command, create
from tests.support.world import World, as_dict, changes, newest_by_key


@pytest.mark.slow
def test_the_merging_half_goes_back_and_merges_again(world: World) -> None:
    pipeline = world.pipeline(world.topic(), "halves", archive="lake://bronze/halves", merge_every=2)
    assert pipeline.landing is not None

    def merged(seq: int) -> None:
        world.produce(pipeline.source.topics[0], changes(range(10 * seq), seq))
        world.drain(pipeline.landing)
        world.drain(pipeline, ignore_merge_every=True)

    merged(1)
    create(world, pipeline, "pin")
    create(world, pipeline, "copy", "--copy")
    cut = Cut.at(world.settings, pipeline, None)
    first = as_dict(world.rows(pipeline))
    merged(2)
    for name in ("pin", "copy"):
        back = command(world, "restore", pipeline, name, *REASON)
        assert back.returncode == 0, back.stderr
        assert as_dict(world.rows(pipeline)) == first
        world.drain(pipeline, ignore_merge_every=True)
        assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    [then] = query_at([cut], "SELECT count(*) AS n, (SELECT count(*) FROM archive) AS archived FROM target").to_pylist()
    assert then == {"n": 10, "archived": 10}
    refused = command(world, "clone", pipeline, "copy", "--as", "other")
    assert (refused.returncode, "two halves" in refused.stderr) == (1, True), refused.stderr
    audited = world.lakemark("audit", "halves", "--deep")
    assert audited.returncode == 0, audited.stdout
