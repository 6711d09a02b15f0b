"""Quality and faults: a gate that fails, killed at every point; a replay of the quarantine beside live batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from include.audit.auditor import audit
from include.fault_points import FAULT_POINTS
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from tests.conftest import world_in
from tests.spark.changes.test_quality import CHEAP, NAMED, send, with_suite
from tests.support.jvm_faults import own_driver
from tests.support.stopped import resumed, stopped, was_killed
from tests.support.world import LAKEMARK, World, as_dict

_POINTS = [p for p in FAULT_POINTS if p.startswith(("plan.", "attempt.", "settle."))]  # that `lakemark run` passes


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory, lake: str) -> World:
    return world_in(tmp_path_factory.mktemp("gate"), stack, lake)


@pytest.fixture(scope="module")
def pipeline(world: World) -> Pipeline:
    """One for all kills: each hits what has survived the ones before."""
    pipeline = with_suite(world, NAMED, on_fail="fail")
    send(world, pipeline, {"id": 0})
    world.run_batch(pipeline)
    return pipeline


@pytest.mark.slow
@pytest.mark.parametrize("point", _POINTS)
def test_i11_a_batch_that_fails_its_gate_lands_nothing_wherever_it_is_killed(
    world: World, pipeline: Pipeline, point: str
) -> None:
    def run(**environment: str) -> tuple[bool, str]:
        """Runs the pipeline; returns whether it was killed, and what it said."""
        done = world.lakemark("run", pipeline.name, **environment)
        said = done.stdout + done.stderr
        return was_killed(done.returncode, said), said

    with_suite(world, NAMED, again=pipeline, on_fail="fail")
    seq = len(world.sent) + 1
    send(world, pipeline, {"id": 1, "seq": seq}, {"id": seq, "seq": seq, "name": None})
    rows, aside = world.rows(pipeline), world.quarantine(pipeline)

    killed, said = run(LAKEMARK_TEST_FAULT=f"{point}=kill")
    assert killed or "not good enough" in said, said  # what comes after the gate is not reached
    assert "not good enough" in run()[1]
    assert (world.rows(pipeline), world.quarantine(pipeline)) == (rows, aside)

    with_suite(world, NAMED, again=pipeline)  # the fix: it is set aside
    killed_then, said = run(LAKEMARK_TEST_FAULT=f"{point}=kill")
    assert killed or killed_then, said
    done = world.lakemark("run", pipeline.name, "--until-caught-up")
    assert done.returncode == 0, done.stderr
    good = [record.value for record in world.sent if record.value["name"] is not None]
    assert {key: row["seq"] for key, row in as_dict(world.rows(pipeline)).items()} == {r["id"]: r["seq"] for r in good}
    assert len(world.quarantine(pipeline)) == len(world.sent) - len(good)
    assert audit(world.settings, pipeline).findings == ()


def waiting(world: World) -> Pipeline:
    """A pipeline whose rows 1 to 3 wait in the quarantine for a suite that is mended already."""
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 0}, *({"id": i, "seq": i, "price": 500} for i in (1, 2, 3)))
    world.run_batch(pipeline)
    return with_suite(world, again=pipeline)


def a_live_batch_comes(world: World, pipeline: Pipeline) -> None:
    """A newer change of row 1, one of row 2 that is older than what waits, and a new row."""
    send(world, pipeline, {"id": 1, "seq": 9, "price": 9}, {"id": 2, "seq": 0, "price": 8}, {"id": 4})
    assert world.run_batch(pipeline) is not None


def assert_both_are_in(world: World, pipeline: Pipeline) -> None:
    prices = {key: row["price"] for key, row in as_dict(world.rows(pipeline)).items()}
    assert prices == {0: 1, 1: 9, 2: 500, 3: 500, 4: 1}
    [reason] = json.loads(world.lakemark("quarantine", "list", pipeline.name, "--json").stdout)
    assert (reason["pending"], reason["replayed"]) == (0, 3)
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed is not None and report.recomputed.rows_equal == 5


@pytest.mark.slow
def test_i9_a_live_batch_lands_before_a_replay_that_has_read_its_records(world: World, zombies: list) -> None:
    pipeline = waiting(world)
    replay = world.start(
        LAKEMARK, "quarantine", "replay", pipeline.name, LAKEMARK_TEST_FAULT="attempt.before_merge=stop"
    )
    zombies.append(replay)
    job = stopped(replay)
    a_live_batch_comes(world, pipeline)
    code, said = resumed(replay, job)
    assert code == 0, said
    assert_both_are_in(world, pipeline)


@pytest.mark.slow
def test_i9_a_live_batch_takes_the_version_that_a_replay_was_about_to_commit(
    world: World, zombies: list, tmp_path: Path
) -> None:
    """Delta sees the conflict, and the replay merges again into the table as it is then."""
    pipeline = waiting(world)
    driver: dict[str, Any] = own_driver(world, pipeline, tmp_path, "at_the_commit", "STOP")
    replay = world.start(LAKEMARK, "quarantine", "replay", pipeline.name, **driver)
    zombies.append(replay)
    jvm = stopped(replay)
    a_live_batch_comes(world, pipeline)
    code, said = resumed(replay, jvm)
    assert code == 0, said
    assert "another writer of the table was faster" in said
    assert_both_are_in(world, pipeline)
