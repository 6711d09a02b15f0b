"""Another pipeline begins with a savepoint, and ends where the first one is. That one is not touched."""

from __future__ import annotations

import pytest

from include.checkpoints.listing import checkpoints_in, listed
from include.pipeline_file import Pipeline
from tests.spark.savepoints.test_restore import command, create, three_batches
from tests.support.photos import Photo, photo, vacuumed, whole, without_batches
from tests.support.stopped import was_killed
from tests.support.world import World, changes


def cloned(world: World, pipeline: Pipeline, savepoint: str, new: str, *told: str, **environment: str) -> Pipeline:
    done = command(world, "clone", pipeline, savepoint, "--as", new, *told, **environment)
    assert done.returncode == 0, done.stderr
    return world.load(new)


def by_old_names(taken: Photo, new: str, old: str) -> Photo:
    return {name.replace(new, old): rows for name, rows in taken.items()}


@pytest.mark.slow  # in `make test` a clone catches up before it takes the first one's place (test_promote.py)
@pytest.mark.on_both_lakes
@pytest.mark.parametrize("kind", ["pin", "copy"])
def test_a_clone_goes_on_by_itself(world: World, kind: str) -> None:
    pipeline, photos = three_batches(world, "original", 1)
    create(world, pipeline, "s", "--at", "1", *(["--copy"] if kind == "copy" else []))
    new = cloned(world, pipeline, "s", "second")
    assert new.target.table == "lake://silver/second"
    assert whole(photo(world, new)) == whole(photos[1])
    assert whole(photo(world, pipeline)) == whole(photos[2])
    asked = world.lakemark("query", "second", "SELECT count(*) AS n FROM target")
    assert asked.returncode == 0, asked.stderr
    [first] = listed(world.settings, new, checkpoints_in(world.settings, new))
    assert (first.checkpoint.name, first.lost) == ("1/1", None)
    vacuumed(world, world.table(pipeline, "target"))
    assert command(world, "drop", pipeline, "s").returncode == 0
    assert world.drain(new) == 1
    assert without_batches(photo(world, new)) == without_batches(photos[2])
    audited = world.lakemark("audit", new.name, "--deep")
    assert audited.returncode == 0, audited.stdout
    back = world.lakemark("checkpoint", "restore", "second", "1/1", "--reason", "test")
    assert back.returncode == 0, back.stderr
    assert whole(photo(world, new)) == whole(photos[1])
    assert world.drain(pipeline) == 0


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_one_that_was_killed_is_ended_by_the_same_command(world: World, nth: int) -> None:
    pipeline, photos = three_batches(world, "cut", 2)
    create(world, pipeline, "s", "--at", "1")
    killed = command(world, "clone", pipeline, "s", "--as", "half", LAKEMARK_TEST_FAULT=f"clone.table_made=kill@{nth}")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    refused = world.lakemark("plan", "half")
    assert refused.returncode == 1, "it must not begin with half of its tables"
    new = cloned(world, pipeline, "s", "half")
    assert whole(photo(world, new)) == whole(photos[1])
    assert world.drain(new) == 1
    assert without_batches(photo(world, new)) == without_batches(photos[2])


def sections(name: str, **change: object) -> dict[str, object]:
    """Sections of a file for a new pipeline, which a person has changed."""
    return {
        "change": {"delete_when": "op = 'd'", **change},
        "target": {"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"},
        "archive": f"lake://bronze/{name}",
    }


@pytest.mark.slow
def test_the_rows_of_a_route_are_not_left_behind(world: World) -> None:
    topic = world.topic()
    routes = [{"table": "lake://silver/odd", "when": "id % 2 = 1"}]
    pipeline = world.pipeline(topic, "routed", target={"table": "lake://silver/routed", "routes": routes})
    world.produce(topic, changes(range(10), 1))
    assert world.drain(pipeline) == 1
    create(world, pipeline, "s")
    world.pipeline(topic, "unrouted", target={"table": "lake://silver/unrouted"})
    refused = command(world, "clone", pipeline, "s", "--as", "unrouted", "--dry-run")
    assert refused.returncode == 1
    assert "lake://silver/odd: impossible: its 5 rows would be in no table of unrouted" in refused.stdout
    world.pipeline(topic, "routed", target={"table": "lake://silver/routed"})
    dry = command(world, "restore", pipeline, "s", "--keep-file", "--dry-run", "--reason", "a test")
    assert (dry.returncode, "lake://silver/odd: leave: " in dry.stdout) == (0, True), dry.stderr


@pytest.mark.slow
def test_a_changed_file_is_judged_before_anything_is_there(world: World) -> None:
    pipeline, photos = three_batches(world, "changed", 3)
    create(world, pipeline, "s")
    [topic] = pipeline.source.topics
    keyed = world.pipeline(topic, "keyed", **sections("keyed", keys=["name"]))
    refused = command(world, "clone", pipeline, "s", "--as", "keyed")
    assert (refused.returncode, "target: impossible: " in refused.stderr) == (1, True), refused.stderr
    dry = command(world, "clone", pipeline, "s", "--as", "keyed", "--dry-run")
    assert (dry.returncode, dry.stdout.count("impossible"), dry.stdout.count("keep")) == (1, 2, 2), dry.stdout
    assert whole(photo(world, keyed)) == {name: [] for name in photos[2]}
    wide = {"schema": "id BIGINT, seq BIGINT, name STRING, op STRING, more INT"}
    wider = world.pipeline(topic, "wider", source=wide, **sections("wider"))
    dry = command(world, "clone", pipeline, "s", "--as", "wider", "--dry-run")
    assert (dry.returncode, dry.stdout.count("migrate")) == (0, 2), dry.stdout
    cloned(world, pipeline, "s", "wider")
    world.produce(topic, [{"id": 100, "seq": 1, "name": "new", "op": "u", "more": 5}])
    assert world.drain(wider) == 1
    rows = {row["id"]: row for row in photo(world, wider)["target"]}
    assert rows.pop(100)["more"] == 5
    assert {row["more"] for row in rows.values()} == {None}
    assert command(world, "clone", pipeline, "s", "--as", "wider").returncode == 0, "it is what it was asked for"
    taken = world.pipeline(topic, "taken", **sections("taken"))
    assert world.drain(taken) == 1
    refused = command(world, "clone", pipeline, "s", "--as", "taken")
    assert (refused.returncode, "must be a new one" in refused.stderr) == (1, True), refused.stderr
