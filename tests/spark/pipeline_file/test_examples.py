"""The example pipelines, each fed with what its comment says and run as a user would."""

from __future__ import annotations

from typing import Any

from include.audit.auditor import audit
from tests.spark.pipeline_file import test_debezium_examples
from tests.support.examples import EXAMPLES, example, send, visible
from tests.support.world import World, read_table


def test_compacted(world: World) -> None:
    pipeline = example(world, "compacted")
    send(
        world,
        pipeline,
        (b"ann", {"name": "Ann", "country": "NO"}),
        (b"bob", {"name": "Bob", "country": "SE"}),
        (b"bob", None),
        (b"cy", {"user_id": "cy", "name": "Cy", "country": "DK"}),
    )
    world.run_batch(pipeline)
    assert visible(world, pipeline, "user_id", "name") == [("ann", "Ann"), ("cy", "Cy")]
    send(world, pipeline, (b"ann", None), (b"bob", {"name": "Bob", "country": "FI"}))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "user_id", "country") == [("bob", "FI"), ("cy", "DK")]
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed is not None and report.recomputed.rows_equal == 3  # a tombstone among them


def test_orders(world: World) -> None:
    pipeline = example(world, "orders")

    def order(id_: int, lsn: int, status: str, op: str = "u") -> tuple[None, dict[str, Any]]:
        return None, {"id": id_, "status": status, "amount": 1, "op": op, "meta": {"lsn": lsn}}

    send(world, pipeline, order(1, 5, "paid"), order(1, 4, "new"), order(2, 1, "new"), order(2, 2, "", "d"))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id", "status") == [("1", "paid")]
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed is not None and report.recomputed.rows_equal == 2


def test_history(world: World) -> None:
    pipeline = example(world, "history")

    def customer(id_: int, day: int, city: str, op: str = "u", seen: int = 1) -> tuple[None, dict[str, Any]]:
        at = {"changed_at": f"2026-01-{day:02}T00:00:00Z", "seen_at": f"2026-02-{seen:02}T00:00:00Z"}
        return None, {"id": id_, "name": f"n{id_}", "city": city, "op": op, **at}

    def states(id_: int) -> list[tuple[Any, ...]]:
        rows = [row for row in world.rows(pipeline) if row["id"] == id_ and row["valid_from"]]
        rows = sorted(rows, key=lambda row: row["valid_from"])
        return [(r["city"], r["valid_from"].day, r["valid_to"] and r["valid_to"].day, r["is_current"]) for r in rows]

    send(world, pipeline, customer(1, 1, "Oslo"), customer(1, 9, "Bergen"), customer(2, 3, "Turku"))
    world.run_batch(pipeline)
    assert states(1) == [("Oslo", 1, 9, False), ("Bergen", 9, None, True)]
    send(
        world,
        pipeline,
        customer(1, 5, "Paris"),  # late: into the middle
        customer(1, 12, "Bergen", seen=7),  # noise
        customer(2, 8, "", "d"),
    )
    world.run_batch(pipeline)
    assert world.counts(pipeline).applied == 3
    assert states(1) == [("Oslo", 1, 5, False), ("Paris", 5, 9, False), ("Bergen", 9, None, True)]
    [bergen] = [row for row in world.rows(pipeline) if row["is_current"]]
    assert bergen["seen_at"].day == 7  # updated in place
    assert states(2) == [("Turku", 3, 8, False)]
    send(world, pipeline, customer(2, 20, "Turku"), customer(2, 5, "Rauma"))  # back again; and late, before it went
    world.run_batch(pipeline)
    assert states(2) == [("Turku", 3, 5, False), ("Rauma", 5, 8, False), ("Turku", 20, None, True)]
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_patches(world: World) -> None:
    pipeline = example(world, "patches")
    send(
        world,
        pipeline,
        (None, {"id": "a", "seq": 1, "name": "lamp", "firmware": "1.0", "room": "hall"}),
        (None, {"id": "a", "seq": 4, "firmware": "1.2"}),
        (None, {"id": "b", "seq": 2, "name": "plug"}),
    )
    world.run_batch(pipeline)
    columns = ("id", "name", "firmware", "room")
    assert visible(world, pipeline, *columns) == [("a", "lamp", "1.2", "hall"), ("b", "plug", "None", "None")]
    send(
        world,
        pipeline,
        (None, {"id": "a", "seq": 3, "firmware": "1.1", "room": None}),  # late: the room is newer, the firmware is not
        (None, {"id": "b", "seq": 1, "name": "old", "room": "attic"}),  # later still, and it was never set
        (None, {"id": "c", "old_id": "b", "seq": 9, "name": "plug", "room": "attic"}),
    )
    world.run_batch(pipeline)
    assert visible(world, pipeline, *columns) == [("a", "lamp", "1.2", "None"), ("c", "plug", "None", "attic")]
    send(world, pipeline, (None, {"id": "a", "seq": 20, "gone": True}), (None, {"id": "a", "seq": 21, "name": "new"}))
    world.run_batch(pipeline)
    assert ("a", "new", "None", "None") in visible(world, pipeline, *columns)
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_rescued(world: World) -> None:
    pipeline = example(world, "rescued")
    at = {"at": "2026-01-01T00:00:00Z"}
    send(world, pipeline, (None, {"id": 1, "kind": "a", **at}), (None, {"id": 2, "kind": ["b"], "new": {"x": 1}, **at}))
    world.run_batch(pipeline)
    rows = {row["id"]: (row["kind"], row["_rescued"]) for row in world.rows(pipeline)}
    assert rows == {1: ("a", None), 2: ('["b"]', '{"new":"{\\"x\\":1}"}')}
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_csv(world: World) -> None:
    pipeline = example(world, "csv")
    send(world, pipeline, (None, b"lamp;10.50;2026-01-01"), (None, b"lamp;12.00;2026-02-01"), (None, b"plug"))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "article", "price") == [("lamp", "12.00")]
    assert [row["reason"] for row in world.quarantine(pipeline)] == ["not decodable with the declared schema"]


def test_texts(world: World) -> None:
    pipeline = example(world, "texts")
    send(world, pipeline, (None, b"one"), (None, b"two"), (None, b"two"))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "kafka_offset", "line") == [("0", "one"), ("1", "two"), ("2", "two")]


def test_archived(world: World) -> None:
    (world.settings.pipelines / "archived.yaml").write_text((EXAMPLES / "archived.yaml").read_text())
    pipeline = world.load("archived")
    for plant in ("oslo", "moss"):
        world.create_topic(f"readings.{plant}", 1)
        reading = {"sensor": plant, "celsius": 4.5, "taken_at": "2026-01-01T00:00:00Z"}
        world.produce(f"readings.{plant}", [reading], 1)
    world.run_batch(pipeline)
    expected = [("readings.moss", "0", "moss"), ("readings.oslo", "0", "oslo")]
    assert visible(world, pipeline, "kafka_topic", "kafka_offset", "sensor") == expected
    archive = str(world.coordinator(pipeline).tables.archive)
    assert archive is not None
    assert len(read_table(archive)) == 2
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_every_example_is_run() -> None:
    """Here, in test_debezium_examples.py, in test_examples_with_a_registry.py, and in other rooms: test_transform.py
    (order_lines) and test_routes.py (routed); those of sinks (payments) by `lakemark example`."""
    elsewhere = {"order_lines", "routed", "avro", "debezium_avro", "protobuf"}
    elsewhere |= {path.stem for path in EXAMPLES.glob("payments_*.yaml")}
    run = [name for tests in (globals(), vars(test_debezium_examples)) for name in tests if name.startswith("test_")]
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} <= {name.removeprefix("test_") for name in run} | elsewhere
