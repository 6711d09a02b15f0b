"""With `merge_every`: either half is killed at every point that it passes, then all is run again; the archive holds
every record once, and the table is the oracle's."""

from __future__ import annotations

import pytest

from include.audit.auditor import audit
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from tests.conftest import world_in
from tests.support.stopped import was_killed
from tests.support.topics import Sent
from tests.support.world import World, as_dict, newest_by_key, read_table

pytestmark = pytest.mark.on_both_lakes

KEYS = 40
_BOTH = (
    "plan.begins",
    "plan.decided",
    "plan.recorded",
    "attempt.before_read",
    "attempt.after_read",
    "attempt.landed",
    "settle.begins",
    "settle.decided",
    "settle.recorded",
)
_MERGING = (*_BOTH, "attempt.judged", "attempt.part_landed", "attempt.before_merge")
_CASES = [(half, point) for half, points in (("landing", _BOTH), ("merging", _MERGING)) for point in points]


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory, lake: str) -> World:
    """One for all tests of this file: every kill hits a pipeline that has survived the ones before."""
    return world_in(tmp_path_factory.mktemp("landing"), stack, lake)


@pytest.fixture(scope="module")
def pipeline(world: World) -> Pipeline:
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    return world.pipeline(
        world.topic(), "landed", quality={"suite": "named"}, archive="lake://bronze/landed", merge_every=3
    )


def more_records(world: World, pipeline: Pipeline) -> None:
    """Records for one batch, most of them newer than what is there, three of them for the quarantine."""
    [topic], base = pipeline.source.topics, len(world.sent)
    changes = [{"id": i % KEYS, "seq": base + i * 7 % 90 - 20, "name": f"n{base}", "op": "u"} for i in range(60)]
    nameless = {"id": KEYS, "seq": base, "op": "u"}
    world.produce(topic, [*changes, b"{", None, nameless])


def is_good(record: Sent) -> bool:
    return isinstance(record.value, dict) and "name" in record.value


def places(rows: list[dict]) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(("half", "point"), _CASES)
def test_i5_i6_killed_at_a_point_of_either_half(world: World, pipeline: Pipeline, half: str, point: str) -> None:
    more_records(world, pipeline)
    if half == "merging":  # the run that is killed finds nothing to land, and so merges what waits
        assert world.lakemark("run", pipeline.name).returncode == 0
        passing = 2 if point.startswith("plan.") else 1  # the landing has planned in the same process
    else:
        passing = 1
    killed = world.lakemark("run", pipeline.name, LAKEMARK_TEST_FAULT=f"{point}=kill@{passing}")
    by_signal = was_killed(killed.returncode, killed.stderr)
    assert by_signal, (killed.returncode, killed.stderr)  # it was there, and it is dead
    done = world.lakemark("run", pipeline.name, "--until-caught-up")
    assert done.returncode == 0, done.stderr
    sent = [(r.topic, r.partition, r.offset) for r in world.sent]
    assert places(read_table(world.coordinator(pipeline).tables.archive or "")) == sorted(sent)  # each once
    assert as_dict(world.rows(pipeline)) == newest_by_key(filter(is_good, world.sent))
    aside = [(r.topic, r.partition, r.offset) for r in world.sent if not is_good(r)]
    assert places(world.quarantine(pipeline)) == sorted(aside)
    for part in pipeline.halves:
        assert audit(world.settings, part).findings == ()
