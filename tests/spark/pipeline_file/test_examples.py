"""The example pipelines, each fed with what its comment says and run as a user would."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT
from tests.support.world import World, read_table

EXAMPLES = PROJECT_ROOT / "include" / "pipelines" / "examples"


def example(world: World, name: str) -> Pipeline:
    """The file as it is, on a topic of one partition."""
    (world.settings.pipelines / f"{name}.yaml").write_text((EXAMPLES / f"{name}.yaml").read_text())
    pipeline = world.load(name)
    world.create_topic(pipeline.source.topics[0], 1)
    return pipeline


def send(world: World, pipeline: Pipeline, *records: tuple[Any, Any]) -> None:
    keys, values = zip(*records, strict=True)
    world.produce(pipeline.source.topics[0], values, 1, keys=keys)


def visible(world: World, pipeline: Pipeline, *columns: str) -> list[tuple]:
    rows = [row for row in world.rows(pipeline) if not row["_lakemark"]["deleted"]]
    return sorted(tuple(str(row[name]) for name in columns) for row in rows)


def postgres(op: str, lsn: int, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"connector": "postgresql", "lsn": lsn}, "ts_ms": 1}


def test_postgresql(world: World) -> None:
    pipeline = example(world, "postgresql")

    def order(id_: int, customer: str) -> dict[str, Any]:
        return {"id": id_, "customer": customer, "amount": "AeJA", "changed_at": 1709210096789012}

    keys = [{"id": n} for n in range(4)]
    send(
        world,
        pipeline,
        (keys[1], postgres("r", 10, None, order(1, "Anne"))),
        (keys[2], postgres("c", 20, None, order(2, "Bert"))),
        (keys[2], postgres("u", 30, None, order(2, "Berta"))),
        (keys[3], postgres("c", 40, None, order(3, "Carl"))),
        (keys[3], postgres("d", 50)),  # without an image of before
        (keys[3], None),
        (keys[2], postgres("u", 25, None, order(2, "late"))),
    )
    world.run_batch(pipeline)
    columns = ("id", "customer", "amount", "changed_at")
    at = "2024-02-29 12:34:56.789012+00:00"
    assert visible(world, pipeline, *columns) == [("1", "Anne", "1234.56", at), ("2", "Berta", "1234.56", at)]
    send(world, pipeline, (keys[3], postgres("u", 45, None, order(3, "late"))))  # does not bring it back
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id") == [("1",), ("2",)]
    assert audit(world.settings, pipeline).findings == ()

    # A truncate lands nothing and asks a person, who decides to go on without it.
    send(world, pipeline, (None, postgres("t", 60)), (keys[1], postgres("u", 70, None, order(1, "Anna"))))
    with pytest.raises(TerminalError, match="truncated"):
        world.run_batch(pipeline)
    assert ("1", "Anne") in visible(world, pipeline, "id", "customer")
    path = world.settings.pipelines / "postgresql.yaml"
    path.write_text(path.read_text().replace("change:\n", "change:\n  truncates: ignore\n"))
    world.run_batch(world.load("postgresql"))
    assert ("1", "Anna") in visible(world, pipeline, "id", "customer")
    assert audit(world.settings, pipeline).findings == ()


def test_mysql(world: World) -> None:
    pipeline = example(world, "mysql")

    def change(op: str, file: int, pos: int, row: int, customer: str) -> dict[str, Any]:
        image = {"id": 1, "customer": customer, "amount": "0.10", "changed_at": 1709210096000}
        source = {"connector": "mysql", "file": f"mysql-bin.{file:06}", "pos": pos, "row": row}
        before, after = (image, None) if op == "d" else (None, image)
        return {"op": op, "before": before, "after": after, "source": source}

    send(
        world,
        pipeline,
        ({"id": 1}, change("c", 10, 4, 0, "newest but one")),
        ({"id": 1}, change("u", 10, 4, 1, "newest")),
        ({"id": 1}, change("u", 9, 900, 0, "of the file before")),
    )
    world.run_batch(pipeline)
    expected = [("1", "newest", "0.10", "2024-02-29 12:34:56+00:00")]
    assert visible(world, pipeline, "id", "customer", "amount", "changed_at") == expected
    send(world, pipeline, ({"id": 1}, change("d", 10, 800, 0, "gone")))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id") == []


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
    assert audit(world.settings, pipeline).findings == ()


@pytest.mark.slow
def test_both(world: World) -> None:
    pipeline = example(world, "both")

    def account(op: str, lsn: int, owner: str, notes: str | None, **image: Any) -> dict[str, Any]:
        after = None if op == "d" else {"id": 1, "owner": owner, "notes": notes, **image}
        source = {"lsn": lsn, "ts_ms": 1_767_225_600_000 + 1000 * lsn}
        return {"op": op, "before": None, "after": after, "source": source}

    unavailable = "__debezium_unavailable_value"
    send(
        world,
        pipeline,
        ({"id": 1}, account("c", 1, "Ann", "a long text")),
        ({"id": 1}, account("u", 3, "Anna", unavailable)),
    )
    world.run_batch(pipeline)
    send(
        world,
        pipeline,
        ({"id": 1}, account("u", 5, "Anne", unavailable)),
        (
            {"id": 1},
            account("u", 2, "Ann", "another text"),
        ),  # late: a value that those after it did not send
    )
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id", "owner", "notes") == [("1", "Anne", "another text")]
    history = str(world.coordinator(pipeline).tables.history)
    assert history is not None
    states = sorted((row["valid_from"].second, row["owner"], row["notes"]) for row in read_table(history))
    other = "another text"
    assert states == [(1, "Ann", "a long text"), (2, "Ann", other), (3, "Anna", other), (5, "Anne", other)]
    # A change of the key, as PostgreSQL writes it where the connector's key is another one than the table's.
    moved = account("u", 9, "Anne", unavailable, id=7)
    send(world, pipeline, ({"id": 7}, {**moved, "before": {"id": 1, "owner": "Anne", "notes": "x"}}))
    world.run_batch(pipeline)
    counts = world.counts(pipeline)
    assert (counts.read, counts.added, counts.applied) == (1, 1, 2)
    assert visible(world, pipeline, "id", "owner") == [("7", "Anne")]
    current = [row["id"] for row in read_table(history) if row["is_current"]]
    assert current == [7]
    assert audit(world.settings, pipeline).findings == ()


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
    assert audit(world.settings, pipeline).findings == ()


def test_truncated(world: World) -> None:
    pipeline = example(world, "truncated")

    def cart(op: str, lsn: int, id_: int | None = None) -> tuple[Any, dict[str, Any]]:
        after = {"id": id_, "customer": f"c{id_}"} if op == "c" else None
        return id_ and {"id": id_}, postgres(op, lsn, None, after)

    send(world, pipeline, cart("c", 1, 1), cart("c", 2, 2), cart("t", 5), cart("c", 6, 3))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id") == [("3",)]
    send(world, pipeline, cart("c", 4, 4), cart("c", 7, 5), cart("t", 7))
    world.run_batch(pipeline)
    assert visible(world, pipeline, "id") == []
    assert audit(world.settings, pipeline).findings == ()


def test_rescued(world: World) -> None:
    pipeline = example(world, "rescued")
    at = {"at": "2026-01-01T00:00:00Z"}
    send(world, pipeline, (None, {"id": 1, "kind": "a", **at}), (None, {"id": 2, "kind": ["b"], "new": {"x": 1}, **at}))
    world.run_batch(pipeline)
    rows = {row["id"]: (row["kind"], row["_rescued"]) for row in world.rows(pipeline)}
    assert rows == {1: ("a", None), 2: ('["b"]', '{"new":"{\\"x\\":1}"}')}
    assert audit(world.settings, pipeline).findings == ()


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
    assert audit(world.settings, pipeline).findings == ()


def test_every_example_is_run() -> None:
    """Here, in test_transform.py (order_lines), test_routes.py (routed) and test_schema_registry.py."""
    elsewhere = {"order_lines", "routed", "avro", "debezium_avro", "protobuf"}
    run_here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} <= run_here | elsewhere
