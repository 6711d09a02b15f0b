"""All tables and the offsets go back together, and going on from there ends as if nothing had been."""

from __future__ import annotations

import random
import subprocess

import pytest

from include.checkpoints.listing import checkpoints_in, listed
from include.checkpoints.reading import Cut
from include.checkpoints.restoring import Restoring
from include.pipeline_file import Pipeline
from include.protocol.checkpoints import named
from include.protocol.errors import TerminalError
from include.protocol.planning import NewBatch
from tests.support.advice import follow
from tests.support.photos import batch_of, photo, records, vacuumed, whole, with_tables, without_batches
from tests.support.stopped import resumed, stopped, was_killed
from tests.support.world import World

_OTHER_POINTS = ("part_fenced", "fenced")


def go_back(world: World, pipeline: Pipeline, name: str) -> None:
    to = named(pipeline.name, checkpoints_in(world.settings, pipeline), name)
    Restoring(world.coordinator(pipeline), to, "a test", "test").restore()


def test_tables_and_offsets_go_back_together(world: World) -> None:
    chance, photos = random.Random(1), {}
    pipeline = with_tables(world, "back", world.topic(2))
    for number in range(5):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos[f"1/{number}"] = photo(world, pipeline)
    go_back(world, pipeline, "2")
    assert whole(photo(world, pipeline)) == whole(photos["1/2"])
    state = world.coordinator(pipeline).ledger.state()
    third = next(c for c in checkpoints_in(world.settings, pipeline) if c.name == "1/2")
    assert state.next_offsets == third.next_offsets
    assert (state.generation, state.generations[-1].origin) == (2, "checkpoint 1/2")
    assert Cut.at(world.settings, pipeline, None).checkpoint == third, "the batches since are undone"
    assert world.run_batch(pipeline) is not None
    assert world.run_batch(pipeline) is None, "not even a repair"
    assert without_batches(photo(world, pipeline)) == without_batches(photos["1/4"])
    assert world.lakemark("audit", pipeline.name, "--deep").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["history", "routes"])
def test_from_any_checkpoint_to_any_other(world: World, beside: str) -> None:
    """Also to one of a generation that was left, and forward again."""
    chance, photos = random.Random(2), {}
    pipeline = with_tables(world, "anywhere", world.topic(2), beside)
    for number in range(12):
        if number % 3 == 2:
            name = chance.choice(sorted(photos))
            go_back(world, pipeline, name)
            assert whole(photo(world, pipeline)) == whole(photos[name]), name
        batch_of(world, pipeline, records(chance, 10 * number))
        state = world.coordinator(pipeline).ledger.state()
        assert not state.batches[-1].batch.mends
        photos[f"{state.generation}/{state.committed_through}"] = photo(world, pipeline)
    whole_ones = listed(world.settings, pipeline, checkpoints_in(world.settings, pipeline))
    assert [one.lost for one in whole_ones] == [None] * len(photos)
    assert sorted(one.checkpoint.name for one in whole_ones) == sorted(photos)
    audited = world.lakemark("audit", pipeline.name, "--deep")
    assert audited.returncode == 0, audited.stdout


@pytest.mark.slow
def test_what_a_vacuum_by_hand_has_broken_is_listed_and_refused(world: World) -> None:
    chance = random.Random(3)
    pipeline = with_tables(world, "broken", world.topic(2))
    for number in range(4):
        batch_of(world, pipeline, records(chance, 10 * number))
    before = photo(world, pipeline)
    vacuumed(world, world.coordinator(pipeline).tables.target)
    *earlier, last = listed(world.settings, pipeline, checkpoints_in(world.settings, pipeline))
    assert all(one.lost is not None and one.lost.startswith("target: ") for one in (*earlier, last))
    with pytest.raises(TerminalError, match="no longer there"):
        go_back(world, pipeline, "1")
    assert whole(photo(world, pipeline)) == whole(before)
    assert world.coordinator(pipeline).ledger.state().generation == 1


@pytest.mark.parametrize(
    "fault", ["part_fenced=kill@2", *(pytest.param(f"{p}=kill", marks=pytest.mark.slow) for p in _OTHER_POINTS)]
)
def test_whoever_is_killed_in_the_middle_is_ended_by_the_same_command(world: World, fault: str) -> None:
    chance, photos = random.Random(4), []
    pipeline = with_tables(world, "killed", world.topic(2))
    for number in range(3):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos.append(photo(world, pipeline))
    restore = ("checkpoint", "restore", pipeline.name, "1/0", "--reason", "test")
    killed = world.lakemark(*restore, LAKEMARK_TEST_FAULT=f"generation.{fault}")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    refused = world.lakemark("plan", pipeline.name)
    assert refused.returncode == 1
    assert "completes it as it was decided" in refused.stderr
    ended = world.lakemark(*restore)
    assert ended.returncode == 0, ended.stderr
    assert whole(photo(world, pipeline)) == whole(photos[0])
    assert world.drain(pipeline) == 1
    assert without_batches(photo(world, pipeline)) == without_batches(photos[2])
    assert len(world.coordinator(pipeline).ledger.state().generations) == 1


@pytest.mark.slow
def test_a_reset_ends_it_too_and_the_next_batch_mends_what_has_no_rows_yet(world: World) -> None:
    chance, photos = random.Random(5), []
    pipeline = with_tables(world, "ended", world.topic(2))
    for number in range(3):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos.append(photo(world, pipeline))
    restore = ("checkpoint", "restore", pipeline.name, "0", "--reason", "test")
    killed = world.lakemark(*restore, LAKEMARK_TEST_FAULT="generation.part_fenced=kill@1")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    assert "finished as it had been" in world.lakemark("reset", pipeline.name, "--reason", "test").stderr
    assert whole(photo(world, pipeline)) == whole(photos[0])


@pytest.mark.slow
def test_a_restore_whose_files_vanish_in_the_middle_can_be_ended_and_says_what_is_lost(world: World) -> None:
    chance, photos = random.Random(8), []
    pipeline = with_tables(world, "vanished", world.topic(2))
    for number in range(3):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos.append(photo(world, pipeline))
    restore = ("checkpoint", "restore", pipeline.name, "0", "--reason", "test")
    killed = world.lakemark(*restore, LAKEMARK_TEST_FAULT="generation.part_fenced=kill@1")
    assert was_killed(killed.returncode, killed.stderr), killed.stderr
    vacuumed(world, world.table(pipeline, "history"))
    assert world.lakemark(*restore[:3], "1/0", *restore[4:]).returncode == 0
    assert world.coordinator(pipeline).ledger.state().generation == 2
    met = follow(
        world, pipeline, {"TableDamaged": 1}
    )  # it is accepted as it is; filling it needs its folder moved away
    assert [error["error"] for error in met] == ["TableDamaged"]
    assert without_batches(photo(world, pipeline))["target"] == without_batches(photos[2])["target"]


def test_i5_a_zombie_of_the_generation_before_never_lands(world: World, zombies: list[subprocess.Popen]) -> None:
    chance = random.Random(6)
    pipeline = with_tables(world, "zombie", world.topic(2))
    for number in range(2):
        batch_of(world, pipeline, records(chance, 10 * number))
    first = photo(world, pipeline)
    batch_of(world, pipeline, records(chance, 30))
    world.produce(pipeline.source.topics[0], records(chance, 40), 2)
    planned = world.coordinator(pipeline).plan()
    assert isinstance(planned, NewBatch)
    job = world.job(pipeline, planned.batch.key, LAKEMARK_TEST_FAULT="attempt.part_landed=stop@2")
    zombies.append(job)
    sleeper = stopped(job)
    go_back(world, pipeline, "1")
    assert whole(photo(world, pipeline)) == whole(first)
    _, said = resumed(job, sleeper)
    assert "FencedGeneration" in said
    assert whole(photo(world, pipeline)) == whole(first)
    assert world.drain(pipeline) == 1
