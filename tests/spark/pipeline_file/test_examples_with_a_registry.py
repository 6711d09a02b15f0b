"""The examples whose schemas a registry holds.

They run attempts, each with a session of its own. So they lie apart from the tests of formats, whose one session stays
open: Spark Connect takes a checkpoint for one of the session that was opened first.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from include.audit.auditor import audit
from include.settings import PROJECT_ROOT
from tests.support.registry_records import AT, framed, record
from tests.support.schema_registry import RegistryServer
from tests.support.world import World


def test_the_examples_with_a_registry(world: World, registry: RegistryServer) -> None:
    def run(name: str, *records: tuple[bytes | None, bytes]) -> list[dict[str, Any]]:
        text = (PROJECT_ROOT / "include" / "pipelines" / "examples" / f"{name}.yaml").read_text()
        text = text.replace("${KAFKA_SCHEMA_REGISTRY:-http://127.0.0.1:8081}", registry.url)
        (world.settings.pipelines / f"{name}.yaml").write_text(text)
        pipeline = world.load(name)
        [topic] = pipeline.source.topics
        world.create_topic(topic, 1)
        keys, values_of = zip(*records, strict=True)
        world.produce(topic, values_of, 1, keys=keys)
        world.run_batch(pipeline)
        assert audit(world.settings, pipeline, deep=True).findings == ()
        return sorted(world.rows(pipeline), key=lambda row: row["id"])

    amount = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    payment = record("Payment", ("id", "long"), ("payer", "string"), ("amount", amount), ("booked_at", at))
    number = registry.register("payments-value", payment)
    paid = {"id": 1, "payer": "Anne", "amount": Decimal("9.90"), "booked_at": AT}
    [row] = run(
        "avro", (None, framed(number, payment, paid)), (None, framed(number, payment, {**paid, "payer": "Ann"}))
    )
    assert (row["payer"], row["amount"]) == ("Ann", Decimal("9.90"))

    image, key = record("Stock", ("id", "long"), ("pieces", "int")), record("StockKey", ("id", "long"))
    block = record("StockSource", ("ts_ms", "long"))
    images = ("before", ["null", image]), ("after", ["null", "Stock"])
    envelope = record("StockEnvelope", *images, ("source", block), ("op", "string"))
    ids = registry.register("stock-value", envelope), registry.register("stock-key", key)

    def stock(op: str, ts_ms: int, id_: int, pieces: int | None) -> tuple[bytes, bytes]:
        after = None if pieces is None else {"id": id_, "pieces": pieces}
        value = {"op": op, "before": None, "after": after, "source": {"ts_ms": ts_ms}}
        return framed(ids[1], key, {"id": id_}), framed(ids[0], envelope, value)

    rows = run("debezium_avro", stock("c", 1, 1, 5), stock("u", 3, 1, 7), stock("u", 2, 1, 6), stock("d", 4, 2, None))
    assert [(row["id"], row["pieces"], row["_lakemark"]["deleted"]) for row in rows] == [(1, 7, False), (2, None, True)]

    ride = 'syntax = "proto3"; message Ride { int64 id = 1; optional string driver = 2; int64 seq = 3; }'
    number = registry.register("rides-value", ride, kind="PROTOBUF")
    head = b"\0" + number.to_bytes(4, "big") + b"\0"
    with_driver, without = b"\x08\x01\x12\x03Ann\x18\x01", b"\x08\x01\x18\x02"  # fields 1, 2 and 3; 1 and 3
    [row] = run("protobuf", (None, head + with_driver), (None, head + without))
    assert (row["id"], row["driver"], row["seq"]) == (1, "Ann", 2)
