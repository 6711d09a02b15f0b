"""One pipeline, several tables, one batch id for all (I11)."""

from __future__ import annotations

import signal
from decimal import Decimal
from typing import Any

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from include.target_log import TableLog
from tests.support.world import World, read_table

EXAMPLE = PROJECT_ROOT / "include" / "pipelines" / "examples" / "routed.yaml"


def ids(path: str) -> set[int]:
    return {row["id"] for row in read_table(path) if not row["_lakemark"]["deleted"]}


def send(world: World, topic: str, *rows: tuple[int, str] | int) -> None:
    """Bookings by id and kind; a bare id is a tombstone."""
    found = [(row, None) if isinstance(row, int) else (row[0], row[1]) for row in rows]
    values: list[Any] = [kind and {"id": id_, "kind": kind, "amount": 1} for id_, kind in found]
    world.produce(topic, values, 1, keys=[{"id": id_} for id_, _ in found])


def markers(world: World, pipeline: Pipeline) -> list[int | None]:
    tables = world.steps(pipeline).tables
    logs = [TableLog.open(path) for path in (tables.target, *tables.routes.values())]
    return [log and log.marker(pipeline.name, 1) for log in logs]


def test_i11_every_table_gets_its_changes_once_also_when_the_job_is_killed_between_them(world: World) -> None:
    (world.settings.pipelines / "routed.yaml").write_text(EXAMPLE.read_text())
    pipeline = world.load("routed")
    for topic in pipeline.source.topics:
        world.create_topic(topic, 1)
    refunds, shop = world.steps(pipeline).tables.routes.values()
    target = world.steps(pipeline).tables.target
    send(world, "bookings", (1, "sale"), (2, "refund"), (3, "sale"), (2, "refund"))
    send(world, "bookings-of-shop-7", (7, "sale"), (8, "refund"))
    world.run_batch(pipeline)
    assert (ids(target), ids(refunds), ids(shop)) == ({1, 3}, {2, 8}, {7})
    assert markers(world, pipeline) == [0, 0, 0]
    counts = world.counts(pipeline)
    assert (counts.read, counts.applied, counts.routed, counts.superseded) == (6, 2, 4, 0)

    send(world, "bookings", 1, 2, (4, "sale"), (5, "refund"))
    send(world, "bookings-of-shop-7", 7, (9, "sale"))
    killed = world.lakemark("run", "routed", LAKEMARK_TEST_FAULT="attempt.route_landed=kill")
    assert killed.returncode == -signal.SIGKILL or "killed by SIGKILL" in killed.stderr, killed.stderr
    assert markers(world, pipeline) == [0, 1, 0]
    done = world.lakemark("run", "routed")
    assert done.returncode == 0, done.stderr
    assert (ids(target), ids(refunds), ids(shop)) == ({3, 4}, {5, 8}, {9})
    assert markers(world, pipeline) == [1, 1, 1]
    assert {row["amount"] for row in read_table(shop) if row["id"] == 9} == {Decimal("1.00")}
    assert audit(world.settings, pipeline).findings == ()
