"""One pipeline, several tables, one batch id for all (I11)."""

from __future__ import annotations

from typing import Any

from include.audit.auditor import audit
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.participants import Stamp
from include.settings import PROJECT_ROOT
from tests.support.world import World, read_table

EXAMPLE = PROJECT_ROOT / "include" / "pipelines" / "examples" / "routed.yaml"


def ids(path: LakeUri) -> set[int]:
    return {row["id"] for row in read_table(path) if not row["_lakemark"]["deleted"]}


def send(world: World, topic: str, *rows: tuple[int, str] | int) -> None:
    """Bookings by id and kind; a bare id is a tombstone."""
    found = [(row, None) if isinstance(row, int) else (row[0], row[1]) for row in rows]
    values: list[Any] = [kind and {"id": id_, "kind": kind, "amount": 1} for id_, kind in found]
    world.produce(topic, values, 1, keys=[{"id": id_} for id_, _ in found])


def tables_of(world: World, pipeline: Pipeline) -> list[LakeUri]:
    """The target, and the routes' tables."""
    return [world.table(pipeline, name) for name in ("target", *(route.table for route in pipeline.target.routes))]


def markers(world: World, pipeline: Pipeline) -> list[int | None]:
    logs = [TableLog.open(path) for path in tables_of(world, pipeline)]
    target, *others = [log and log.marker(pipeline.name, 1) for log in logs]
    return [target, *(None if number is None else Stamp.of(number).marker for number in others)]


def the_example(world: World) -> Pipeline:
    """The example, on topics of this test's own."""
    mine = world.topic(partitions=1)
    world.create_topic(f"{mine}-of-shop-7", 1)
    text = EXAMPLE.read_text().replace("bookings-of-shop-7", f"{mine}-of-shop-7").replace("[bookings,", f"[{mine},")
    (world.settings.pipelines / "routed.yaml").write_text(text)
    return world.load("routed")


def first_batch(world: World, pipeline: Pipeline) -> None:
    main, shop = pipeline.source.topics
    send(world, main, (1, "sale"), (2, "refund"), (3, "sale"), (2, "refund"))
    send(world, shop, (7, "sale"), (8, "refund"))
    world.run_batch(pipeline)
    assert where_ids_are(world, pipeline) == [{1, 3}, {2, 8}, {7}]
    assert markers(world, pipeline) == [0, 0, 0]


def second_batch(world: World, pipeline: Pipeline) -> None:
    main, shop = pipeline.source.topics
    send(world, main, 1, 2, (4, "sale"), (5, "refund"))
    send(world, shop, 7, (9, "sale"))


def where_ids_are(world: World, pipeline: Pipeline) -> list[set[int]]:
    return [ids(path) for path in tables_of(world, pipeline)]


def test_every_change_goes_where_its_route_says_and_bare_deletes_to_all(world: World) -> None:
    pipeline = the_example(world)
    first_batch(world, pipeline)
    counts = world.counts(pipeline)
    assert (counts.read, counts.applied, counts.routed, counts.superseded) == (6, 2, 4, 0)
    second_batch(world, pipeline)
    world.run_batch(pipeline)
    assert where_ids_are(world, pipeline) == [{3, 4}, {5, 8}, {9}]
    assert markers(world, pipeline) == [1, 1, 1]
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_a_key_that_moves_leaves_every_table_and_a_bare_delete_reaches_all(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(
        topic,
        source={
            "schema": "id BIGINT, old_id BIGINT, seq BIGINT, kind STRING, op STRING",
            "filter": "kind <> 'noise'",
        },
        change={"keys": ["id"], "order_by": ["seq"], "delete_when": "op = 'd'", "previous_keys": {"id": "old_id"}},
        target={
            "routes": [{"table": f"lake://silver/refunds_of_{topic.replace('-', '_')}", "when": "kind = 'refund'"}]
        },
    )
    world.produce(topic, [{"id": n, "seq": 1, "kind": "refund" if n % 2 else "sale"} for n in range(1, 9)], 1)
    world.run_batch(pipeline)
    assert where_ids_are(world, pipeline) == [{2, 4, 6, 8}, {1, 3, 5, 7}]
    moves = [
        {"id": 11, "old_id": 1, "seq": 2, "kind": "sale"},  # from the route's table to the target
        {"id": 12, "old_id": 2, "seq": 2, "kind": "refund"},  # the other way
        {"id": 13, "old_id": 3, "seq": 2, "kind": "refund", "op": "d"},  # and goes
        {"id": 14, "old_id": 4, "seq": 2, "op": "d"},
        {"id": 5, "seq": 2, "op": "d"},  # holds a key, and nothing to route or filter by
        {"id": 6, "seq": 2, "op": "d"},
        {"id": 17, "old_id": 7, "seq": 2, "kind": "noise"},  # and is left out
    ]
    world.produce(topic, moves, 1)
    world.run_batch(pipeline)
    assert where_ids_are(world, pipeline) == [{8, 11}, {12}]
    assert audit(world.settings, pipeline, deep=True).findings == ()
