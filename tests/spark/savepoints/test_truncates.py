"""Truncates that come after a clone or a cut over: rows that another pipeline has read are deleted, and audited."""

from __future__ import annotations

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from tests.support.examples import postgres
from tests.support.kinds_of_tables import truncates
from tests.support.world import World

pytestmark = pytest.mark.slow


def shown(world: World, pipeline: Pipeline) -> list[int]:
    """The keys of the rows that are not deleted. (The truncate itself is a row without a key.)"""
    return sorted(row["id"] for row in world.rows(pipeline) if not row["_lakemark"]["deleted"])


def test_a_truncate_deletes_what_another_pipeline_has_read(world: World) -> None:
    pipeline = truncates(world, "carts")
    for command in (["create", "carts", "--name", "s"], ["clone", "carts", "s", "--as", "other"]):
        done = world.lakemark("savepoint", *command)
        assert done.returncode == 0, done.stderr

    def come(lsn: int, id_: int) -> None:
        inserted = postgres("c", lsn + 1, None, {"id": id_, "customer": "c"})
        values, keys = [postgres("t", lsn, None, None), inserted], [None, {"id": id_}]
        world.produce(pipeline.source.topics[0], values, 1, keys=keys)

    come(20, 30)
    for name in ("carts", "other"):
        world.drain(world.load(name))
        assert shown(world, world.load(name)) == [30]
        assert audit(world.settings, world.load(name), deep=True).findings == ()
    done = world.lakemark("promote", "other", "--over", "carts", "--reason", "a test")
    assert done.returncode == 0, done.stderr
    come(40, 50)
    world.drain(pipeline)
    assert shown(world, pipeline) == [50]
    assert audit(world.settings, pipeline, deep=True).findings == ()
    with world.session() as spark:
        table = world.coordinator(pipeline).tables.target
        spark.sql(f"UPDATE delta.`{table}` SET _lakemark.deleted = false WHERE id = 3").collect()
    assert audit(world.settings, pipeline, deep=True).findings != ()
