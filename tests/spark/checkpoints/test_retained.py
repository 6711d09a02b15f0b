"""Maintenance removes what no retained checkpoint needs, and nothing else."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from include.checkpoints.listing import checkpoints_in, listed
from include.pipeline_file import Pipeline
from include.pipeline_file.target import Checkpoints
from include.protocol.errors import TerminalError
from include.savepoints.making import Making
from spark_jobs.commands.maintenance import Maintenance
from tests.spark.checkpoints.test_restore import go_back
from tests.support.photos import batch_of, photo, records, whole, with_tables
from tests.support.waiting import wait_until
from tests.support.world import World

CARELESS = "spark.databricks.delta.retentionDurationCheck.enabled"
RETAINED = 3


def maintained(world: World, pipeline: Pipeline, retain: int) -> dict[str, Any]:
    """Maintenance that removes at once what nobody needs."""
    at_once = pipeline.maintenance.model_copy(update={"vacuum_after_hours": 0.0, "small_files_max": 1})
    rules = {"maintenance": at_once, "checkpoints": Checkpoints(retain=retain)}
    with world.session() as spark:
        spark.conf.set(CARELESS, "false")
        try:
            return Maintenance(
                lambda: spark, world.settings, pipeline.model_copy(update=rules), "test", lambda fact: None
            ).run()
        finally:
            spark.conf.unset(CARELESS)


@pytest.mark.slow
@pytest.mark.on_both_lakes
def test_vacuum_spares_retained_checkpoints_and_pins(world: World) -> None:
    chance, photos = random.Random(7), []
    pipeline = with_tables(world, "spared", world.topic(2))
    for number in range(9):
        batch_of(world, pipeline, records(chance, 10 * number))
        photos.append(photo(world, pipeline))
    pinned = ("savepoint", "create", pipeline.name, "--name", "pin", "--at", "1")
    assert world.lakemark(*pinned).returncode == 0
    report = maintained(world, pipeline, RETAINED)
    assert "VACUUM" in report["tables"]["target"]["did"]
    kept = report["kept"]["target"]
    assert (kept["versions"], kept["files"] > 0, kept["bytes"] > 0) == (RETAINED + 1, True, True)
    lost = [one.lost for one in listed(world.settings, pipeline, checkpoints_in(world.settings, pipeline))]
    assert lost[-RETAINED:] == [None] * RETAINED
    assert any(lost[2:-RETAINED]), "nobody needs what they alone have"
    assert lost[1] is None
    for number in (6, 8, 7):
        go_back(world, pipeline, f"1/{number}")
        assert whole(photo(world, pipeline)) == whole(photos[number])
    assert world.lakemark("savepoint", "restore", pipeline.name, "pin", "--reason", "test").returncode == 0
    assert whole(photo(world, pipeline)) == whole(photos[1])
    assert world.drain(pipeline) == 1


@pytest.mark.slow
def test_nobody_takes_up_an_old_version_between_the_look_and_the_removal(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chance, commit = random.Random(8), Maintenance._commit
    pipeline = with_tables(world, "raced", world.topic(2))
    for number in range(3):
        batch_of(world, pipeline, records(chance, 10 * number))
    refused = list[TerminalError]()

    def take_up() -> None:
        try:
            Making(world.settings, pipeline, "pin", at="0", reason="a test", created_by="me").make()
        except TerminalError as error:
            refused.append(error)

    other = threading.Thread(target=take_up, daemon=True)

    def raced(self: Maintenance, role: str, name: str, *statement: Any) -> list[str]:
        if (role, name) == ("target", "VACUUM"):
            other.start()
            wait_until(lambda: "VACUUM of the target has its turn" in caplog.text, 60)
        return commit(self, role, name, *statement)

    monkeypatch.setattr(Maintenance, "_commit", raced)
    assert "VACUUM" in maintained(world, pipeline, 1)["tables"]["target"]["did"]
    other.join(60)
    assert ["checkpoint list" in error.action for error in refused] == [True]
