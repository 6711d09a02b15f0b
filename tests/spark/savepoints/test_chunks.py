"""What a backfill has brought since the newest batch belongs to where the tables stand: it is saved, and promoted."""

from __future__ import annotations

import random

import pytest

from include.checkpoints.reading import Cut
from include.checkpoints.shelf import taken
from include.pipeline_file import Pipeline
from tests.spark.savepoints.test_clone import cloned
from tests.spark.savepoints.test_promote import promote
from tests.spark.savepoints.test_restore import REASON, command, create, three_batches
from tests.support.photos import batch_of, photo, records, whole, without_batches
from tests.support.world import World


def saved_versions(world: World, pipeline: Pipeline, name: str) -> dict[str, int | None]:
    return {table: saved.position.version for table, saved in taken(world.settings, pipeline, name).tables.items()}


def filled(world: World, pipeline: Pipeline) -> Pipeline:
    """By a new transform: the rows change that the records still hold."""
    [topic], name = pipeline.source.topics, pipeline.name
    world.settings.transforms.mkdir(exist_ok=True)
    (world.settings.transforms / "louder.sql").write_text("SELECT * EXCEPT (name), upper(name) AS name FROM changes")
    found = world.pipeline(
        topic,
        name,
        change={"delete_when": "op = 'd'"},
        target={"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"},
        archive=f"lake://bronze/{name}",
        transform={"file": "louder.sql", "schema": "id BIGINT, seq BIGINT, name STRING, op STRING"},
    )
    done = world.lakemark("backfill", name, "--since", "2000-01-01", "--reason", "by the new transform")
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pin", "copy"])
def test_a_savepoint_has_what_chunks_have_brought(world: World, kind: str) -> None:
    pipeline, photos = three_batches(world, "filled", 31)
    pipeline = filled(world, pipeline)
    was = photo(world, pipeline)
    assert whole(was)["target"] != whole(photos[2])["target"]
    create(world, pipeline, "s", *(["--copy"] if kind == "copy" else []))
    cut = Cut.at(world.settings, pipeline, None)
    assert cut.checkpoint.name == "backfill-1/0"
    assert cut.versions == {name: table.version() for name, table in cut.tables().items()}
    batch_of(world, pipeline, records(random.Random(32), 30))
    done = photo(world, pipeline)
    assert command(world, "restore", pipeline, "s", *REASON).returncode == 0
    assert whole(photo(world, pipeline)) == whole(was)
    stands = Cut.at(world.settings, pipeline, None)
    assert stands.checkpoint.name == "backfill-1/0"
    assert {name: table.version() for name, table in stands.tables().items()} == cut.versions
    create(world, pipeline, "again")
    assert saved_versions(world, pipeline, "again") == saved_versions(world, pipeline, "s")
    assert world.drain(pipeline) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(done)
    assert world.lakemark("audit", pipeline.name, "--deep").returncode == 0
    new = cloned(world, pipeline, "s", "filled_new")
    assert whole(photo(world, new)) == whole(was)


@pytest.mark.slow
def test_a_promotion_brings_what_chunks_have_brought(world: World) -> None:
    pipeline, photos = three_batches(world, "filled_over", 33)
    create(world, pipeline, "s")
    new = cloned(world, pipeline, "s", "filled_over_new")
    was = photo(world, filled(world, new))
    assert whole(was)["target"] != whole(photos[2])["target"]
    done = promote(world, new, pipeline, "--write-file", "--accept-differences")
    assert done.returncode == 0, done.stderr
    assert whole(photo(world, pipeline)) == whole(was)
