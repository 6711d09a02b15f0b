"""`lakemark profile` on the event log of the real server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from include.installation.stack import Stack
from tests.conftest import world_in
from tests.support.waiting import wait_until
from tests.support.world import World, changes


def test_a_batchs_time_is_told_by_step(stack: Stack, tmp_path: Path) -> None:
    world = world_in(tmp_path, stack, LAKEMARK_MERGE_ENGINE="spark")
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 40}})
    world.produce(topic, [*changes(range(40), 1), *changes(range(20, 60), 2)])
    assert world.drain(pipeline) == 2

    def profile(*more: str) -> dict[str, Any]:
        done = world.lakemark("profile", pipeline.name, "--json", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def whole() -> dict[str, Any] | None:
        found = profile("--svg", str(tmp_path / "p.svg"))
        return found if "commit" in {step["name"] for step in found["steps"]} else None

    newest = wait_until(whole)  # Spark writes its log a little behind
    assert newest["batch_id"] == 1
    assert newest["engines"] == {"target": "spark: LAKEMARK_MERGE_ENGINE says so"}
    steps = {step["name"]: step for step in newest["steps"]}
    assert {"read", "decode and reduce", "match", "rewrite", "deletion vectors", "commit"} <= steps.keys()
    assert newest["spark_jobs"] == sum(step["jobs"] for step in newest["steps"]) > 5
    assert all(0 <= step["in_jobs_seconds"] <= step["seconds"] + 0.01 for step in newest["steps"])
    assert all(step["begins"] + step["seconds"] <= newest["seconds"] + 0.1 for step in newest["steps"])
    assert sum(step["cpu_seconds"] for step in newest["steps"]) > 0
    assert newest["merge_metrics"]["numTargetRowsUpdated"] == 20
    assert newest["phase_seconds"].keys() >= {"read", "decode", "merge", "settle"}
    assert ElementTree.parse(tmp_path / "p.svg").getroot().tag.endswith("svg")

    by_lane = replace(world, settings=replace(world.settings, merge_engine="auto"))
    world.produce(topic, changes(range(10), 3))
    assert by_lane.drain(pipeline) == 1
    newest = wait_until(lambda: (found := profile())["spark_jobs"] and found)
    assert newest["engines"] == {"target": "lane: at most 2,000,000 records"}
    assert {step["name"] for step in newest["steps"]} >= {"decode and reduce"}
    assert newest["merge_metrics"]["numTargetRowsUpdated"] == 10
    assert newest["phase_seconds"].keys() >= {"read", "decode", "merge", "upkeep", "settle"}


def test_a_batch_that_the_log_does_not_have_is_said_to_be_missing(world: World, tmp_path: Path) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    none = world.lakemark("profile", pipeline.name)
    assert (none.returncode, "no attempt to profile" in none.stderr) == (1, True)
    world.produce(topic, changes(range(3), 1))
    world.drain(pipeline)
    done = world.lakemark("profile", pipeline.name, "--events", str(tmp_path))
    assert (done.returncode, str(tmp_path) in done.stderr, "spark.eventLog.enabled" in done.stderr) == (1, True, True)
