"""Killed while it merges into a table so large that the MERGE looks only where the batch's keys can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from include.audit.auditor import audit
from include.installation.stack import Stack
from include.lake.delta_tables import open_table, query, rows_at_most
from include.pipeline_file import Pipeline
from spark_jobs.tables import pruning
from tests.conftest import world_in
from tests.support.jvm_faults import own_driver
from tests.support.stopped import was_killed
from tests.support.world import World, as_dict, changes, newest_by_key

pytestmark = pytest.mark.slow
OTHERS = 4_000_000  # rows that no batch touches
FIRST_OTHER = 1_000  # their lowest id
LIMIT = 1_000  # records per batch


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_in(tmp_path_factory.mktemp("large"), stack)


@pytest.fixture(scope="module")
def pipeline(world: World) -> Pipeline:
    """A pipeline with one batch in its table, beside rows that no batch touches."""
    pipeline = world.pipeline(world.topic(), "large", source={"limits": {"records_per_batch_max": LIMIT}})
    world.create_target(pipeline)
    target = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        lineage = spark.read.format("delta").load(target).schema["_lakemark"].dataType
        others = spark.range(FIRST_OTHER, FIRST_OTHER + OTHERS).select(
            "id",
            F.lit(1).cast("bigint").alias("seq"),
            F.lit("other").alias("name"),
            F.lit("u").alias("op"),
            F.lit(None).cast(lineage).alias("_lakemark"),
        )
        others.write.format("delta").mode("append").save(target)
    more_records(world, pipeline)
    world.run_batch(pipeline)
    return pipeline


def more_records(world: World, pipeline: Pipeline) -> None:
    """Changes of keys that are there, and some that are not."""
    base = len(world.sent)
    world.produce(pipeline.source.topics[0], changes(range(base // 4, base // 4 + 60), base, f"n{base}."), 2)


def assert_right(world: World, pipeline: Pipeline) -> None:
    done = world.lakemark("run", pipeline.name, "--until-caught-up")
    assert done.returncode == 0, done.stderr
    table = open_table(world.coordinator(pipeline).tables.target)
    assert table is not None
    assert as_dict(query(table, f"select * from t where id < {FIRST_OTHER}")) == newest_by_key(world.sent)
    assert query(table, f"select count(*) as n from t where id >= {FIRST_OTHER}") == [{"n": OTHERS}]
    [others] = audit(world.settings, pipeline).findings
    assert others.what == "another writer changed the table's rows: WRITE"


@pytest.mark.parametrize("point", ["attempt.before_merge", "attempt.landed"])
def test_killed_at_a_point_beside_a_pruned_merge(world: World, pipeline: Pipeline, point: str) -> None:
    assert pruning.pays(rows_at_most(world.coordinator(pipeline).tables.target), LIMIT)
    more_records(world, pipeline)
    killed = world.lakemark("run", pipeline.name, LAKEMARK_TEST_FAULT=f"{point}=kill")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    assert_right(world, pipeline)


def test_killed_inside_the_commit_of_a_pruned_merge(world: World, pipeline: Pipeline, tmp_path: Path) -> None:
    more_records(world, pipeline)
    version = world.version(pipeline)
    failed = world.lakemark("run", pipeline.name, **own_driver(world, pipeline, tmp_path, "at_the_commit", "KILL"))
    assert failed.returncode == 1
    assert world.version(pipeline) == version
    assert_right(world, pipeline)
