"""The example pipelines for Debezium, each fed with what its comment says and run as a user would."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.auditor import audit
from include.protocol.errors import TerminalError
from tests.support.examples import example, postgres, send, visible
from tests.support.world import World, read_table


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
    assert audit(world.settings, pipeline, deep=True).findings == ()

    # A truncate lands nothing and asks a person, who decides to go on without it.
    send(world, pipeline, (None, postgres("t", 60)), (keys[1], postgres("u", 70, None, order(1, "Anna"))))
    with pytest.raises(TerminalError, match="truncated"):
        world.run_batch(pipeline)
    assert ("1", "Anne") in visible(world, pipeline, "id", "customer")
    path = world.settings.pipelines / "postgresql.yaml"
    path.write_text(path.read_text().replace("change:\n", "change:\n  truncates: ignore\n"))
    world.run_batch(world.load("postgresql"))
    assert ("1", "Anna") in visible(world, pipeline, "id", "customer")
    assert audit(world.settings, pipeline, deep=True).findings == ()


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
    history = world.table(pipeline, "history")
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
    assert audit(world.settings, pipeline, deep=True).findings == ()


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
    assert audit(world.settings, pipeline, deep=True).findings == ()
