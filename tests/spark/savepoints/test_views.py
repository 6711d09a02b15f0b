"""Spark reads all tables at a cut as views; also by a savepoint, whose tables name files of other folders."""

from __future__ import annotations

import pytest

from include.checkpoints.reading import Cut, query_at
from include.pipeline_file import VALID_FROM
from spark_jobs.at_a_cut import views_at
from tests.spark.savepoints.test_restore import create, three_batches
from tests.support.world import World


@pytest.mark.slow
@pytest.mark.on_both_lakes
def test_views_are_the_tables_of_that_cut(world: World) -> None:
    pipeline, photos = three_batches(world, "viewed", 1)
    create(world, pipeline, "pin", "--at", "1")
    create(world, pipeline, "copy", "--at", "1", "--copy")
    for when, number in (("batch:0", 0), ("batch:1", 1), ("savepoint:pin", 1), ("savepoint:copy", 1)):
        cut = Cut.at(world.settings, pipeline, when)
        with world.session() as spark:
            names = views_at(spark, cut, "then_")
            assert sorted(names) == sorted(f"then_{name}" for name in cut.versions)
            found = {row["id"]: row["name"] for row in spark.table("then_target").collect()}
            joined = spark.sql("SELECT count(*) FROM then_target t JOIN then_history h ON t.id = h.id").collect()[0][0]
        target = [row for row in photos[number]["target"] if not row["_lakemark"]["deleted"]]
        assert found == {row["id"]: row["name"] for row in target}
        shown = [row for row in photos[number]["history"] if row[VALID_FROM] is not None]
        assert joined == sum(row["id"] in found for row in shown)
        [same] = query_at([cut], "SELECT count(*) AS n FROM target t JOIN history h ON t.id = h.id").to_pylist()
        assert same["n"] == joined
