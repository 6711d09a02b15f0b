"""A real process is killed at every named point of the protocol, then all is run again: the table is the oracle's."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from include.audit.auditor import audit
from include.fault_points import FAULT_POINTS
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from tests.conftest import world_in
from tests.support.jvm_faults import JvmPoint, own_driver
from tests.support.topics import Sent
from tests.support.world import World, as_dict, as_states, newest_by_key, read_table, states_by_key

# What passes the points that `lakemark run` does not.
_COMMANDS = {"generation.fenced": ("reset", "--reason=test"), "rebuild.set_aside": ("ledger", "rebuild")}
# One of each kind in every run; all of them in `make test-all`.
_ALWAYS = {"attempt.landed", "generation.fenced"}
_OF_OTHER_PIPELINES = {"attempt.route_landed"}  # tests/spark/tables/test_routes.py
_POINTS = [
    pytest.param(p, marks=() if p in _ALWAYS else pytest.mark.slow)
    for p in FAULT_POINTS
    if p not in _OF_OTHER_PIPELINES
]
KEYS = 40


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One for all tests of this file: every kill hits a pipeline that has survived the ones before."""
    return world_in(tmp_path_factory.mktemp("killed"), stack)


@pytest.fixture(scope="module")
def pipeline(world: World) -> Pipeline:
    """A pipeline on a topic with two partitions, with one batch in its table, a history table, an archive, and a suite
    that finds something in every batch."""
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    target = {"table": "lake://silver/killed", "history_table": "lake://silver/killed_history"}
    pipeline = world.pipeline(
        world.topic(), "killed", quality={"suite": "named"}, target=target, archive="lake://bronze/killed"
    )
    more_records(world, pipeline)
    world.run_batch(pipeline)
    return pipeline


def more_records(world: World, pipeline: Pipeline) -> None:
    """Records for one batch, most of them newer than what is there, three of them for the quarantine."""
    [topic], base = pipeline.source.topics, len(world.sent)
    changes = [{"id": i % KEYS, "seq": base + i * 7 % 90 - 20, "name": f"n{base}", "op": "u"} for i in range(60)]
    nameless = {"id": KEYS, "seq": base, "op": "u"}
    world.produce(topic, [*changes, b"{", None, nameless])


def is_good(record: Sent) -> bool:
    return isinstance(record.value, dict) and "name" in record.value


def assert_right(world: World, pipeline: Pipeline, deep: bool = False) -> None:
    done = world.lakemark("run", pipeline.name, "--until-caught-up")
    assert done.returncode == 0, done.stderr
    good = list(filter(is_good, world.sent))
    assert as_dict(world.rows(pipeline)) == newest_by_key(good)
    assert as_states(read_table(world.coordinator(pipeline).tables.history)) == states_by_key(good)
    archived = sorted(
        (r["topic"], r["partition"], r["offset"]) for r in read_table(world.coordinator(pipeline).tables.archive)
    )
    assert sorted(set(archived)) == sorted((r.topic, r.partition, r.offset) for r in world.sent)
    report = audit(world.settings, pipeline, deep)
    assert report.findings == ()
    assert not deep or report.recomputed.rows_equal == KEYS
    aside = {(row["topic"], row["partition"], row["offset"]) for row in world.quarantine(pipeline)}
    assert aside == {(r.topic, r.partition, r.offset) for r in world.sent if not is_good(r)}


@pytest.mark.parametrize("point", _POINTS)
def test_killed_at_a_point_of_the_protocol(world: World, pipeline: Pipeline, point: str) -> None:
    more_records(world, pipeline)
    command = _COMMANDS.get(point, ("run",))
    if point == "rebuild.set_aside":  # a ledger that is damaged
        [*_, last] = sorted(Path(str(world.coordinator(pipeline).ledger.uri), "_delta_log").glob("*.json"))
        last.write_bytes(b"")
    words = [*command, pipeline.name]
    killed = world.lakemark(*words, LAKEMARK_TEST_FAULT=f"{point}=kill")
    by_signal = killed.returncode == -signal.SIGKILL or "killed by SIGKILL" in killed.stderr
    assert by_signal, (killed.returncode, killed.stderr)  # it was there, and it is dead
    if point == "generation.fenced":  # half done: said again, it is ended as it was begun
        assert "a reset, skip or rebuild was interrupted" in world.lakemark("run", pipeline.name).stderr
        assert json.loads(world.lakemark(*words, "--json").stdout)["as_asked"] is False
    elif point == "rebuild.set_aside":
        assert json.loads(world.lakemark(*words, "--json").stdout)["origin"] == "commit metadata"
    assert_right(world, pipeline)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("data_files_written", marks=pytest.mark.slow),
        pytest.param("at_the_commit", marks=pytest.mark.slow),
        pytest.param("commit_done", marks=pytest.mark.slow),
    ],
)
def test_killed_inside_deltas_commit(world: World, pipeline: Pipeline, point: JvmPoint, tmp_path: Path) -> None:
    """The JVM is killed; the rerun is on another one."""
    more_records(world, pipeline)
    commit = world.version(pipeline) + 1
    failed = world.lakemark("run", pipeline.name, **own_driver(world, pipeline, tmp_path, point, "KILL"))
    assert failed.returncode == 1
    log = Path(str(world.coordinator(pipeline).tables.target), "_delta_log")
    assert (log / f"{commit:020}.json").exists() == (point == "commit_done")
    assert bool(list(log.glob(f".{commit:020}.json.*.tmp"))) == (point == "at_the_commit"), failed.stderr
    assert_right(world, pipeline, deep=True)
