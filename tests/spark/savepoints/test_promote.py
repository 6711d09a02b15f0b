"""A clone takes the place of the pipeline that it began from, at exactly its offsets: no gap, and no duplicate."""

from __future__ import annotations

import json
import random
import re

import pytest

from include.pipeline_file import Pipeline
from tests.spark.savepoints.test_clone import cloned
from tests.spark.savepoints.test_restore import command, create, three_batches
from tests.support.photos import batch_of, photo, records, whole, without_batches
from tests.support.stopped import was_killed
from tests.support.world import World

REASON = ("--reason", "a test")


def promote(world: World, new: Pipeline, over: Pipeline, *told: str, **environment: str):
    return world.lakemark("promote", new.name, "--over", over.name, *REASON, *told, **environment)


def both(world: World, name: str, seed: int) -> tuple[Pipeline, Pipeline]:
    """A pipeline, and its clone, which is a batch behind."""
    pipeline, _ = three_batches(world, name, seed)
    create(world, pipeline, "s")
    new = cloned(world, pipeline, "s", f"{name}_new")
    batch_of(world, pipeline, records(random.Random(seed + 1), 40))
    return pipeline, new


@pytest.mark.on_both_lakes
def test_the_clone_catches_up_and_takes_the_place(world: World) -> None:
    pipeline, new = both(world, "blue", 1)
    before = photo(world, pipeline)
    done = promote(world, new, pipeline)
    assert done.returncode == 0, done.stderr
    assert without_batches(photo(world, pipeline)) == without_batches(before)
    assert whole(photo(world, pipeline)) == whole(photo(world, new))
    assert world.drain(pipeline) == 0, "not even a repair"
    batch_of(world, pipeline, records(random.Random(9), 60))
    assert world.drain(new) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(photo(world, new))
    audited = world.lakemark("audit", pipeline.name, "--deep")
    assert audited.returncode == 0, audited.stdout
    [name] = [line.split()[7] for line in done.stdout.splitlines() if line.startswith("to go back")]
    assert command(world, "restore", pipeline, name, *REASON).returncode == 0
    assert whole(photo(world, pipeline)) == whole(before)


SAVED = pytest.param("promotion.saved=kill", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [SAVED, "generation.part_fenced=kill@2"])
def test_one_that_was_killed_is_ended_by_the_same_command(world: World, fault: str) -> None:
    pipeline, new = both(world, "cut", 3)
    before = photo(world, pipeline)
    killed = promote(world, new, pipeline, LAKEMARK_TEST_FAULT=fault)
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    ended = promote(world, new, pipeline)
    assert ended.returncode == 0, ended.stderr
    assert without_batches(photo(world, pipeline)) == without_batches(before)
    assert whole(photo(world, pipeline)) == whole(photo(world, new))
    assert world.drain(pipeline) == 0
    assert len(world.coordinator(pipeline).ledger.state().generations) == 1


@pytest.mark.slow
def test_another_program_takes_the_place_with_its_file(world: World) -> None:
    pipeline, _ = three_batches(world, "green", 5)
    create(world, pipeline, "s", "--at", "0")
    [topic] = pipeline.source.topics
    world.settings.transforms.mkdir(exist_ok=True)
    (world.settings.transforms / "louder.sql").write_text("SELECT * EXCEPT (name), upper(name) AS name FROM changes")
    new = world.pipeline(
        topic,
        "louder",
        change={"delete_when": "op = 'd'"},
        target={"table": "lake://silver/louder", "history_table": "lake://silver/louder_history"},
        archive="lake://bronze/louder",
        transform={"file": "louder.sql", "schema": "id BIGINT, seq BIGINT, name STRING, op STRING"},
    )
    cloned(world, pipeline, "s", "louder")
    before = photo(world, pipeline)
    refused = promote(world, new, pipeline)
    assert (refused.returncode, "--write-file" in refused.stderr) == (1, True), refused.stderr
    refused = promote(world, new, pipeline, "--write-file")
    assert (refused.returncode, "the tables differ" in refused.stderr) == (1, True), refused.stderr
    assert world.load(pipeline.name).transform is None, "nothing was changed"
    done = promote(world, new, pipeline, "--write-file", "--accept-differences")
    assert done.returncode == 0, done.stderr
    after = world.load(pipeline.name)
    assert after.transform is not None
    assert whole(photo(world, after)) == whole(photo(world, new))
    world.produce(topic, [{"id": 100, "seq": 1, "name": "soft", "op": "u"}])
    assert world.drain(after) == 1
    assert {row["name"] for row in photo(world, after)["target"] if row["id"] == 100} == {"SOFT"}
    [advice] = [line for line in done.stdout.splitlines() if line.startswith("to go back")]
    [name] = re.findall(rf"savepoint restore {pipeline.name} (\S+) --write-file", advice)
    refused = command(world, "restore", after, name, *REASON)
    assert (refused.returncode, "other: transform" in refused.stderr) == (1, True), refused.stderr
    assert command(world, "restore", after, name, "--write-file", *REASON).returncode == 0
    back = world.load(pipeline.name)
    assert (back.transform, whole(photo(world, back))) == (None, whole(before))


def aside(world: World, pipeline: Pipeline) -> int:
    """How many records wait in the quarantine."""
    found = json.loads(world.lakemark("quarantine", "list", pipeline.name, "--json").stdout)
    return sum(one["pending"] for one in found)


@pytest.mark.slow
def test_both_may_have_had_generations_of_the_same_number(world: World) -> None:
    """The first pipeline was reset after the savepoint, so batches of both are called 2/0."""
    pipeline, _ = three_batches(world, "reset", 7)
    create(world, pipeline, "s", "--at", "1")
    assert world.lakemark("reset", pipeline.name, *REASON).returncode == 0
    batch_of(world, pipeline, [*records(random.Random(8), 40), b"no json"])
    new = cloned(world, pipeline, "s", "reset_new")
    assert world.drain(new) == 1
    keys = {world.coordinator(one).ledger.state().batches[-1].batch.key for one in (pipeline, new)}
    assert len(keys) == 1
    before, waiting = photo(world, pipeline), aside(world, pipeline)
    done = promote(world, new, pipeline)
    assert done.returncode == 0, done.stderr
    assert without_batches(photo(world, pipeline)) == without_batches(before)
    assert aside(world, pipeline) == waiting > 0
    batch_of(world, pipeline, records(random.Random(9), 60))
    audited = world.lakemark("audit", pipeline.name, "--deep")
    assert audited.returncode == 0, audited.stdout
