"""Tables and offsets go back to a savepoint together, whatever was done to the tables since."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from include.pipeline_file import Pipeline
from include.protocol.planning import NewBatch
from tests.support.photos import Photo, batch_of, photo, records, vacuumed, whole, with_tables, without_batches
from tests.support.stopped import resumed, stopped, was_killed
from tests.support.world import World

REASON = ("--reason", "a test")


def command(
    world: World, action: str, pipeline: Pipeline, *told: str, **environment: str
) -> subprocess.CompletedProcess:
    return world.lakemark("savepoint", action, pipeline.name, *told, **environment)


def create(world: World, pipeline: Pipeline, name: str, *told: str) -> None:
    done = command(world, "create", pipeline, "--name", name, *told)
    assert done.returncode == 0, done.stderr


def three_batches(world: World, name: str, seed: int) -> tuple[Pipeline, list[Photo]]:
    chance, photos = random.Random(seed), []
    pipeline = with_tables(world, name, world.topic(2))
    for number in range(3):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos.append(photo(world, pipeline))
    return pipeline, photos


@pytest.mark.slow
@pytest.mark.on_both_lakes
def test_a_copy_comes_back_after_a_vacuum_by_hand_and_a_pin_says_what_it_lost(world: World) -> None:
    pipeline, photos = three_batches(world, "vacuumed", 1)
    create(world, pipeline, "copy", "--copy", "--at", "0")
    create(world, pipeline, "pin", "--at", "0")
    for table in ("target", "history"):
        vacuumed(world, world.table(pipeline, table))
    found = {one["name"]: one["lost"] for one in json.loads(command(world, "list", pipeline, "--json").stdout)}
    assert found["copy"] is None
    assert found["pin"] is not None
    broken = command(world, "verify", pipeline, "pin")
    assert (broken.returncode, "it is gone" in broken.stdout) == (1, True)
    refused = command(world, "restore", pipeline, "pin", *REASON)
    assert (refused.returncode, "no longer there" in refused.stderr) == (1, True)
    assert whole(photo(world, pipeline)) == whole(photos[2])
    back = command(world, "restore", pipeline, "copy", *REASON)
    assert back.returncode == 0, back.stderr
    assert whole(photo(world, pipeline)) == whole(photos[0])
    assert command(world, "drop", pipeline, "copy").returncode == 0
    vacuumed(world, world.coordinator(pipeline).tables.target)
    assert world.drain(pipeline) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(photos[2])
    audited = world.lakemark("audit", pipeline.name, "--deep")
    assert audited.returncode == 0, audited.stdout


@pytest.mark.parametrize(
    "fault",
    ["part_fenced=kill@2", *(pytest.param(f"{p}=kill", marks=pytest.mark.slow) for p in ("part_fenced", "fenced"))],
)
@pytest.mark.slow
def test_whoever_is_killed_in_the_middle_is_ended_by_the_same_command(world: World, fault: str) -> None:
    pipeline, photos = three_batches(world, "killed", 2)
    create(world, pipeline, "copy", "--copy", "--at", "0")
    vacuumed(world, world.table(pipeline, "target"))
    killed = command(world, "restore", pipeline, "copy", *REASON, LAKEMARK_TEST_FAULT=f"generation.{fault}")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    ended = command(world, "restore", pipeline, "copy", *REASON)
    assert ended.returncode == 0, ended.stderr
    assert whole(photo(world, pipeline)) == whole(photos[0])
    assert world.drain(pipeline) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(photos[2])
    assert len(world.coordinator(pipeline).ledger.state().generations) == 1


@pytest.mark.slow
def test_i5_a_zombie_of_the_generation_before_never_lands(world: World, zombies: list[subprocess.Popen]) -> None:
    pipeline, photos = three_batches(world, "zombie", 3)
    create(world, pipeline, "s", "--at", "1")
    world.produce(pipeline.source.topics[0], records(random.Random(4), 40), 2)
    planned = world.coordinator(pipeline).plan()
    assert isinstance(planned, NewBatch)
    job = world.job(pipeline, planned.batch.key, LAKEMARK_TEST_FAULT="attempt.part_landed=stop@2")
    zombies.append(job)
    sleeper = stopped(job)
    assert command(world, "restore", pipeline, "s", *REASON).returncode == 0
    _, said = resumed(job, sleeper)
    assert "FencedGeneration" in said
    assert whole(photo(world, pipeline)) == whole(photos[1])


@pytest.mark.slow
def test_one_that_is_taken_while_a_batch_runs_is_the_end_of_the_batch_before(
    world: World, zombies: list[subprocess.Popen]
) -> None:
    pipeline, photos = three_batches(world, "running", 5)
    world.produce(pipeline.source.topics[0], records(random.Random(6), 40), 2)
    planned = world.coordinator(pipeline).plan()
    assert isinstance(planned, NewBatch)
    job = world.job(pipeline, planned.batch.key, LAKEMARK_TEST_FAULT="attempt.part_landed=stop@2")
    zombies.append(job)
    sleeper = stopped(job)
    create(world, pipeline, "meanwhile", "--copy", "--deep")
    resumed(job, sleeper)
    assert world.drain(pipeline) == 0
    after = photo(world, pipeline)
    assert command(world, "verify", pipeline, "meanwhile", "--deep").returncode == 0
    assert command(world, "restore", pipeline, "meanwhile", *REASON).returncode == 0
    assert whole(photo(world, pipeline)) == whole(photos[2])
    assert world.drain(pipeline) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(after)
