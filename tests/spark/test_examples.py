"""The example pipelines, each fed with what its comment says and run as a user would."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT
from tests.support.world import World

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
