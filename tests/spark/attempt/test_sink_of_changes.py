"""Sinks that get the changes themselves (`what: changes`): each accepted change once, in order, whatever befalls."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from include.control.deliveries import Deliverer
from include.delivery.creating import create, needed
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from tests.spark.attempt.test_two_phase import ENGINES, by
from tests.support.sink_servers import PostgresServer
from tests.support.topics import Sent
from tests.support.world import World, changes

DELETES = {"delete_when": "op = 'd'"}
Change = tuple[int, int, str | None, bool]


def with_sink(world: World, postgres: PostgresServer, **more: Any) -> Pipeline:
    """A pipeline whose sink gets changes, in a table without a key: one that comes twice is there twice."""
    postgres.clear()
    section = postgres.section(what="changes", **more)
    pipeline = world.pipeline(world.topic(), sinks={"app": section}, change=DELETES)
    create(pipeline, "app", needed(pipeline, "app"))
    return pipeline


def send(world: World, pipeline: Pipeline, rows: list[dict[str, Any]]) -> list[Sent]:
    before = len(world.sent)
    world.produce(pipeline.source.topics[0], rows)
    return world.sent[before:]


def added(postgres: PostgresServer) -> list[Change]:
    """In the order in which they were added."""
    query = "SELECT id, seq, name, lakemark_deleted FROM orders ORDER BY ctid"
    return [tuple(row) for row in postgres.rows(query)]


def expected(batches: list[list[Sent]]) -> list[Change]:
    """All changes of each batch, in their order."""
    found = []
    for batch in batches:
        for one in sorted(batch, key=lambda one: (one.value["seq"], one.partition, one.offset)):
            gone = one.value["op"] == "d"
            found.append((one.value["id"], one.value["seq"], None if gone else one.value["name"], gone))
    return found


def batch_of(number: int) -> list[dict[str, Any]]:
    """Several changes to each of some rows, late ones and deletes among them."""
    first = changes(range(number * 2, number * 2 + 6), 10 * number + 1, name=f"a{number}")
    more = changes(range(number * 2, number * 2 + 3), 10 * number + 2, name=f"b{number}")
    return [*first, *more, *changes(range(number * 2, number * 2 + 1), 10 * number + 3, op="d")]


def deliver(world: World, pipeline: Pipeline) -> None:
    assert Deliverer(world.settings, pipeline, "app").deliver() is not None


@pytest.mark.parametrize("mode", ["follow", pytest.param("two_phase", marks=pytest.mark.slow)])
def test_each_change_comes_once_and_in_order_by_either_engine(
    world: World, postgres: PostgresServer, mode: str
) -> None:
    pipeline = with_sink(world, postgres, mode=mode)
    sent: list[list[Sent]] = []
    for number, engine in enumerate(ENGINES):
        sent.append(send(world, pipeline, batch_of(number)))
        by(engine, world).run_batch(pipeline)
        if mode == "follow":
            deliver(world, pipeline)
        assert added(postgres) == expected(sent)
    table = world.table(pipeline, "target")
    with world.session() as session:
        session.sql(f"OPTIMIZE delta.`{world.table(pipeline, 'changes')}`")
        session.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('user.note' = 'x')")
    sent.append(send(world, pipeline, batch_of(9)))
    world.run_batch(pipeline)
    deliver(world, pipeline)
    assert added(postgres) == expected(sent)
    assert world.lakemark("audit", pipeline.name, "--deep", "--sinks").returncode == 0


@pytest.mark.slow
def test_a_batch_that_was_killed_between_its_changes_and_its_point_comes_once(
    world: World, postgres: PostgresServer
) -> None:
    pipeline = with_sink(world, postgres)
    first = send(world, pipeline, batch_of(0))
    world.coordinator(pipeline).plan()
    killed = world.job(pipeline, world.key(pipeline, 0), LAKEMARK_TEST_FAULT="attempt.before_merge=kill")
    told = killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL, told
    deliver(world, pipeline)
    assert added(postgres) == []
    world.attempt(pipeline, 0)
    world.settle(pipeline, 0)
    second = send(world, pipeline, batch_of(1))
    world.run_batch(pipeline)
    deliver(world, pipeline)
    assert added(postgres) == expected([first, second])


@pytest.mark.slow
def test_a_sink_that_is_added_later_gets_what_comes(world: World, postgres: PostgresServer) -> None:
    pipeline = world.pipeline(world.topic(), change=DELETES)
    send(world, pipeline, batch_of(0))
    world.run_batch(pipeline)
    postgres.clear()
    sinks = {"app": postgres.section(what="changes")}
    pipeline = world.pipeline(pipeline.source.topics[0], pipeline.name, sinks=sinks, change=DELETES)
    create(pipeline, "app", needed(pipeline, "app"))
    deliver(world, pipeline)
    assert added(postgres) == []
    second = send(world, pipeline, batch_of(1))
    world.run_batch(pipeline)
    deliver(world, pipeline)
    assert added(postgres) == expected([second])
    with pytest.raises(TerminalError, match="there is no snapshot of changes"):
        Deliverer(world.settings, pipeline, "app").deliver(as_it_is=True)
