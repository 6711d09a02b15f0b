"""What a backfill into a new table has set aside waits in the quarantine, is saved, and is promoted."""

from __future__ import annotations

import pytest

from include.pipeline_file import Pipeline
from tests.spark.savepoints.test_clone import cloned
from tests.spark.savepoints.test_promote import promote
from tests.spark.savepoints.test_restore import REASON, command, create
from tests.support.photos import photo, whole
from tests.support.world import World, changes


def strict(world: World, topic: str, name: str) -> Pipeline:
    """By a new transform, one record has no key."""
    world.settings.transforms.mkdir(exist_ok=True)
    sql = "SELECT * EXCEPT (id), CASE WHEN id = 5 THEN NULL ELSE id END AS id FROM changes"
    (world.settings.transforms / "strict.sql").write_text(sql)
    return world.pipeline(
        topic,
        name,
        target={"table": f"lake://silver/{name}"},
        archive=f"lake://bronze/{name}",
        transform={"file": "strict.sql", "schema": "id BIGINT, seq BIGINT, name STRING, op STRING"},
    )


def waiting(world: World, name: str) -> int:
    """Records that wait for the new transform."""
    [line] = [one for one in world.lakemark("quarantine", "list", name).stdout.splitlines() if "null in a key" in one]
    return int(line.split()[0])


@pytest.mark.slow
def test_what_a_new_table_has_set_aside_waits_is_saved_and_promoted(world: World) -> None:
    topic = world.topic(1)
    old = world.pipeline(topic, "aside", target={"table": "lake://silver/aside"}, archive="lake://bronze/aside")
    world.produce(topic, [*changes(range(7), 1), b"no json"], 1)
    assert world.drain(old) == 1
    create(world, old, "before")
    strict(world, topic, "aside_new")
    new = cloned(world, old, "before", "aside_new")
    done = world.lakemark("backfill", "aside_new", "--into-new-table", *REASON)
    assert done.returncode == 0, done.stderr
    assert {row["id"] for row in photo(world, new)["target"]} == {0, 1, 2, 3, 4, 6}
    assert waiting(world, "aside_new") == 1
    was = photo(world, new)
    create(world, new, "s")
    assert command(world, "restore", new, "s", *REASON).returncode == 0
    assert whole(photo(world, new)) == whole(was)
    assert waiting(world, "aside_new") == 1
    promoted = promote(world, new, old, "--write-file", "--accept-differences")
    assert promoted.returncode == 0, promoted.stderr
    assert whole(photo(world, old)) == whole(was)
    assert waiting(world, "aside") == 1
