"""A rehearsal restores a savepoint for a while, and says whether that would work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.savepoints.test_restore import command, create, three_batches
from tests.support.photos import photo, whole
from tests.support.stopped import resumed, stopped, was_killed
from tests.support.world import LAKEMARK, World


def names(world: World) -> set[str]:
    lake = Path(str(world.settings.lake))
    return {str(file.relative_to(lake)) for file in lake.rglob("*") if file.is_file()}


def make_older(world: World, name: str) -> None:
    """Makes what a killed rehearsal has left a year old."""
    lake = Path(str(world.settings.lake))
    [own] = Path(lake, "_lakemark/rehearsal", name).iterdir()
    for folder in (own, *lake.glob(f"_lakemark/*/*__rehearsal_{own.name}")):
        folder.rename(folder.with_name(folder.name.replace("_20", "_19") if folder != own else f"19{own.name[2:]}"))


@pytest.mark.slow
def test_it_leaves_nothing_but_its_word(world: World) -> None:
    pipeline, photos = three_batches(world, "rehearsed", 1)
    create(world, pipeline, "old", "--at", "0", "--copy")
    create(world, pipeline, "new")
    before = names(world)
    done = command(world, "rehearse", pipeline)
    assert (done.returncode, "savepoint new would be restored as it was" in done.stdout) == (0, True), done.stdout
    assert names(world) - before == {"_lakemark/savepoints/rehearsed/new/rehearsed.json"}
    killed = command(world, "rehearse", pipeline, "old", LAKEMARK_TEST_FAULT="rehearsal.cloned=kill")
    assert was_killed(killed.returncode, killed.stderr)
    assert any("rehearsal" in name for name in names(world) - before), "it had no time to clean up"
    make_older(world, pipeline.name)
    done = command(world, "rehearse", pipeline, "old")
    assert done.returncode == 0, done.stdout
    words = {f"_lakemark/savepoints/rehearsed/{name}/rehearsed.json" for name in ("old", "new")}
    assert names(world) - before == words
    listed = json.loads(command(world, "list", pipeline, "--json").stdout)
    assert [one["rehearsed"]["problems"] for one in listed] == [[], []]
    assert whole(photo(world, pipeline)) == whole(photos[2])
    [file, *_] = Path(str(world.settings.lake), "_lakemark/savepoints/rehearsed/old/tables/target").glob("*.parquet")
    file.unlink()
    done = command(world, "rehearse", pipeline, "old")
    assert (done.returncode, "would NOT be restored" in done.stdout, "it is gone" in done.stdout) == (1, True, True)
    assert "problems: 1" in command(world, "list", pipeline).stdout


@pytest.mark.slow
def test_two_at_once_do_not_disturb_each_other(world: World) -> None:
    pipeline, _ = three_batches(world, "twice", 2)
    create(world, pipeline, "s")
    before = names(world)
    steps = ("savepoint", "rehearse", pipeline.name, "s")
    process = world.start(LAKEMARK, *steps, LAKEMARK_TEST_FAULT="rehearsal.cloned=stop")
    sleeper = stopped(process)
    try:
        done = command(world, "rehearse", pipeline, "s")
    finally:
        code, said = resumed(process, sleeper)
    assert (done.returncode, code) == (0, 0), (done.stdout, said)
    assert names(world) - before == {"_lakemark/savepoints/twice/s/rehearsed.json"}
