"""Pipelines with every kind of table, each with some batches of all that may happen to it: for `audit --deep`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.spark.changes.test_transform import prices
from tests.support.examples import postgres
from tests.support.world import World

SCHEMA = "id BIGINT, seq BIGINT, name STRING, op STRING"
MOVING = "id BIGINT, old_id BIGINT, seq BIGINT, name STRING, note STRING, gone BOOLEAN"


def change(id_: int, seq: int, name: str | None = "n", op: str = "u", **more: Any) -> dict[str, Any]:
    return {"id": id_, "seq": seq, "name": name, "op": op, **more}


def feed(world: World, pipeline: Pipeline, *batches: Iterable[Any]) -> Pipeline:
    for batch in batches:
        world.produce(pipeline.source.topics[0], list(batch), 1)
        assert world.run_batch(pipeline) is not None
    return pipeline


def history(world: World, name: str, **target: Any) -> Pipeline:
    """With late changes, ties, a delete, a change of nothing."""
    changes = {"delete_when": "op = 'd'", "track_columns": ["name"], **({} if target else {"history": "scd2"})}
    pipeline = world.pipeline(world.topic(1), name, change=changes, target={"table": f"lake://silver/{name}", **target})
    first = [change(1, 10, "a"), change(1, 30, "b"), change(2, 5), change(3, 1, "x"), change(3, 1, "y")]
    second = [change(1, 20, "late"), change(2, 9, op="d"), change(1, 40, "b"), change(4, 7), change(2, 7, "before")]
    return feed(world, pipeline, first, second, [change(2, 12, "again"), change(4, 3, None, "d"), *first[:2]])


def beside(world: World, name: str) -> Pipeline:
    return history(world, name, history_table=f"lake://silver/{name}_history")


def patches(world: World, name: str) -> Pipeline:
    """Patches, also late ones; keys that change; deletes."""
    changes = {"absent": "keep", "previous_keys": {"id": "old_id"}, "delete_when": "gone"}
    table = {"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"}
    pipeline = world.pipeline(world.topic(1), name, source={"schema": MOVING}, change=changes, target=table)
    first = [
        {"id": 1, "seq": 1, "name": "a", "note": "n"},
        {"id": 1, "seq": 9, "name": "b"},
        {"id": 2, "seq": 2, "name": "c", "note": None},
        {"id": 3, "seq": 2, "name": "d"},
    ]
    second = [
        {"id": 1, "seq": 5, "name": "late", "note": "late"},
        {"id": 7, "old_id": 2, "seq": 8, "note": "moved"},
        {"id": 3, "seq": 6, "gone": True},
        {"id": 3, "seq": 4, "note": "too late"},
    ]
    third = [{"id": 2, "seq": 6, "name": "late, and gone"}, {"id": 3, "seq": 11, "note": "back"}]
    return feed(world, pipeline, first, second, third)


def routes(world: World, name: str) -> Pipeline:
    """Routes by a condition; deletes that go everywhere; a filter; a key that moves from one table to another."""
    changes = {"delete_when": "op = 'd'", "tombstones": "delete", "previous_keys": {"id": "old_id"}}
    pipeline = world.pipeline(
        world.topic(1),
        name,
        source={"schema": f"{SCHEMA}, old_id BIGINT", "key": "json", "filter": "name <> 'unwanted'"},
        change={**changes, "order_by": ["kafka.timestamp"]},
        target={
            "table": f"lake://silver/{name}",
            "routes": [{"table": f"lake://silver/{name}_odd", "when": "id % 2 = 1"}],
        },
    )
    rows = [change(n, n) for n in range(8)]
    feed(world, pipeline, [*rows, change(9, 9, "unwanted")])
    world.produce(pipeline.source.topics[0], [None], 1, keys=[{"id": 3}])
    moved = change(21, 10, old_id=4)
    return feed(world, pipeline, [moved, {"id": 5, "op": "d"}, change(6, 11, "newer", op="d")])


def truncates(world: World, name: str) -> Pipeline:
    source = {"format": "debezium-json", "key": "json", "schema": "id BIGINT, customer STRING"}
    changes = {"order_by": ["source.lsn"], "truncates": "apply"}
    pipeline = world.pipeline(world.topic(1), name, source=source, change=changes)
    topic = pipeline.source.topics[0]

    def cart(op: str, lsn: int, id_: int | None = None, customer: str = "c") -> tuple[Any, dict[str, Any]]:
        after = {"id": id_, "customer": customer} if op in "cu" else None
        return id_ and {"id": id_}, postgres(op, lsn, None, after)

    unavailable = "__debezium_unavailable_value"
    first = [cart("c", 1, 1), cart("c", 2, 2), cart("t", 5), cart("c", 6, 3), cart("u", 8, 3, unavailable)]
    second = [cart("c", 4, 4), cart("c", 7, 5), cart("t", 7), cart("c", 9, 6), cart("d", 10, 6), cart("c", 11, 7)]
    for batch in (first, second):
        keys, values = zip(*batch, strict=True)
        world.produce(topic, values, 1, keys=keys)
        world.run_batch(pipeline)
    return pipeline


def envelopes(world: World, name: str) -> Pipeline:
    """Debezium, with values that were not sent, other types, and a key that changes."""
    schema = "id BIGINT, owner STRING, notes STRING, price DECIMAL(10, 2), day DATE, at TIMESTAMP"
    source = {"format": "debezium-json", "key": "json", "schema": schema}
    table = {"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"}
    changes = {"order_by": ["source.lsn"], "valid_from": "source.ts_ms"}
    pipeline = world.pipeline(world.topic(1), name, source=source, change=changes, target=table)

    def account(op: str, lsn: int, id_: int, notes: str | None, before: Any = None) -> tuple[Any, dict[str, Any]]:
        values = {"price": "AeJA", "day": 19_000 + lsn, "at": 1_709_210_096_789_012 + lsn}
        after = None if op == "d" else {"id": id_, "owner": f"o{lsn}", "notes": notes, **values}
        place = {"lsn": lsn, "ts_ms": 1_767_225_600_000 + 1000 * lsn}
        return {"id": id_}, {"op": op, "before": before, "after": after, "source": place}

    unavailable = "__debezium_unavailable_value"
    first = [account("c", 1, 1, "a long text"), account("u", 3, 1, unavailable), account("c", 4, 2, None)]
    second = [account("u", 5, 1, unavailable), account("u", 2, 1, "another"), account("d", 6, 2, None)]
    third = [account("u", 9, 7, unavailable, {"id": 1, "owner": "x", "notes": "x"}), account("u", 8, 3, unavailable)]
    for batch in (first, second, third):
        keys, values = zip(*batch, strict=True)
        world.produce(pipeline.source.topics[0], values, 1, keys=keys)
        world.run_batch(pipeline)
    return pipeline


def lines(world: World, name: str) -> Pipeline:
    source = {"format": "csv", "csv": {"delimiter": ";"}, "schema": "id BIGINT, seq BIGINT, name STRING, day DATE"}
    pipeline = world.pipeline(world.topic(1), name, source=source)
    good = [b'1;1;"a ""quoted"" one; indeed";2026-01-01', b"1;2;b\\c;2026-01-02\r\n", b"2;1;;", b'3;1;"x\\"y";2026-1-3']
    return feed(world, pipeline, [*good, b"4;1", b'5;1;"broken', b"6;x;a;"], [b"2;0;late;2026-01-01"])


def texts(world: World, name: str) -> Pipeline:
    source = {"format": "string", "schema": "line STRING"}
    pipeline = world.pipeline(world.topic(1), name, source=source, change={"keys": "generated", "order_by": []})
    return feed(world, pipeline, [b"one", "zwei ä".encode(), b"\xff", b""])


def rescued(world: World, name: str) -> Pipeline:
    changes = {"on_schema_change": "rescue"}
    pipeline = world.pipeline(world.topic(1), name, source={"schema": f"{SCHEMA}, n INT"}, change=changes)
    odd = [
        {"n": "5"},
        {"n": 5, "more": {"a": [1, None]}},
        {"n": 1.0, "x": 1.50},
        {"name": ["b"]},
        {"y": None},
        {"n": 7},
    ]
    return feed(world, pipeline, [change(n, 1) | values for n, values in enumerate(odd)])


def transformed(world: World, name: str) -> Pipeline:
    """Several rows of a record, filtered and joined with a table that changes between two batches; deletes."""
    (world.settings.transforms).mkdir(exist_ok=True)
    shutil.copy(PROJECT_ROOT / "include" / "transforms" / "order_lines.sql", world.settings.transforms)
    lines = "order_id BIGINT, article STRING, pieces INT, amount DECIMAL(12, 2), changed_at TIMESTAMP"
    references = {"prices": "lake://silver/prices"}
    pipeline = world.pipeline(
        world.topic(1),
        name,
        source={"schema": "id BIGINT, changed_at TIMESTAMP, items ARRAY<STRUCT<article: STRING, pieces: INT>>"},
        transform={"file": "order_lines.sql", "schema": lines, "references": references},
        change={"keys": ["order_id", "article"], "order_by": ["changed_at"]},
    )

    def order(id_: int, day: int, *items: tuple[str, int]) -> dict[str, Any]:
        lines = [{"article": article, "pieces": pieces} for article, pieces in items]
        return {"id": id_, "changed_at": f"2026-01-{day:02}T00:00:00Z", "items": lines}

    prices(world, lamp="10.00", plug="2.50")
    feed(world, pipeline, [order(1, 1, ("lamp", 2), ("plug", 4)), order(2, 1, ("desk", 1)), order(3, 1), b"{"])
    prices(world, lamp="20.00", desk="7.00")
    again = [order(1, 2, ("lamp", 3)), order(4, 1, ("desk", 1), ("desk", 2), ("lamp", 0)), order(1, 1, ("lamp", 9))]
    return feed(world, pipeline, again)


MADE: Mapping[str, Callable[[World, str], Pipeline]] = {
    "beside": beside,
    "patches": patches,
    "routes": routes,
    "envelopes": envelopes,
    "history": history,
    "truncates": truncates,
    "lines": lines,
    "texts": texts,
    "rescued": rescued,
    "transformed": transformed,
}
