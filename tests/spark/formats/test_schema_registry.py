"""What the registry holds: schemas that refer to others, schemas of no use, no answer; the examples that need one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.audit.auditor import audit
from include.protocol.errors import RetryableError
from include.settings import PROJECT_ROOT
from include.sources.avro_schema import AvroSchema
from include.sources.schema_registry import NoSchema, SchemaRegistry
from tests.support.decoding import a_pipeline, decoded, values
from tests.support.registry_records import AT, framed, record
from tests.support.schema_registry import RegistryServer
from tests.support.world import World


def test_a_schema_that_refers_to_others(spark: SparkSession, registry: RegistryServer) -> None:
    city = {**record("City", ("name", "string")), "namespace": "geo"}
    registry.register("city", city)
    person = {**record("Person", ("id", "long"), ("home", "geo.City"), ("work", "geo.City")), "namespace": "people"}
    reference = {"name": "geo.City", "subject": "city", "version": 1}
    number = registry.register("person", person, [reference])
    pipeline = a_pipeline(
        "id BIGINT, home STRUCT<name: STRING>, work STRUCT<name: STRING>", format="avro", registry={"url": registry.url}
    )
    whole = {**person, "fields": [person["fields"][0], {"name": "home", "type": city}, person["fields"][2]]}
    value = {"id": 1, "home": {"name": "Oslo"}, "work": {"name": "Moss"}}
    [row] = decoded(spark, pipeline, [(None, framed(number, whole, value))])
    assert values(row) == (1, {"name": "Oslo"}, {"name": "Moss"})


def test_a_registry_that_is_away_or_refuses_says_so(registry: RegistryServer) -> None:
    away = a_pipeline("id BIGINT", format="avro", registry={"url": "http://127.0.0.1:9"})
    with pytest.raises(RetryableError, match=r"the schema registry does not answer.*schemas/ids/1"):
        SchemaRegistry.of(away.source).avro(1)
    here = a_pipeline("id BIGINT", format="avro", registry={"url": registry.url})
    assert SchemaRegistry.of(here.source).avro(88_888) == NoSchema("schema 88888 is not in the registry")
    known = registry.register("a-text", {"type": "string"})
    assert isinstance(SchemaRegistry.of(here.source).avro(known), AvroSchema)


def test_the_examples_with_a_registry(world: World, registry: RegistryServer) -> None:
    def run(name: str, *records: tuple[bytes | None, bytes]) -> list[dict[str, Any]]:
        text = (PROJECT_ROOT / "include" / "pipelines" / "examples" / f"{name}.yaml").read_text()
        text = text.replace("${SCHEMA_REGISTRY:-http://127.0.0.1:8081}", registry.url)
        (world.settings.pipelines / f"{name}.yaml").write_text(text)
        pipeline = world.load(name)
        [topic] = pipeline.source.topics
        world.create_topic(topic, 1)
        keys, values_of = zip(*records, strict=True)
        world.produce(topic, values_of, 1, keys=keys)
        world.run_batch(pipeline)
        assert audit(world.settings, pipeline).findings == ()
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


def test_a_schema_that_is_of_no_use_stops_nobody(spark: SparkSession, registry: RegistryServer) -> None:
    good = record("Good", ("id", "long"))
    node = record("Node", ("id", "long"), ("next", ["null", "Node"]))
    twice = record("Twice", ("id", "long"), ("ID", "long"))
    numbers = [
        registry.register("good", good),
        registry.register("node", node),
        registry.register("twice", twice),
        registry.register("text", {"type": "string"}),
        registry.register("message", 'syntax = "proto3"; message M { int64 id = 1; }', kind="PROTOBUF"),
    ]
    pipeline = a_pipeline("id BIGINT", format="avro", registry={"url": registry.url})
    body = framed(0, good, {"id": 1})[5:]
    rows = decoded(spark, pipeline, [(None, b"\0" + n.to_bytes(4, "big") + body) for n in (*numbers, 99_999)])
    assert [row["reason"] for row in rows] == [
        None,
        f"schema {numbers[1]} cannot be read by Spark",
        f"schema {numbers[2]} cannot be read by Spark",
        f"schema {numbers[3]} is no record",
        f"schema {numbers[4]} is of type PROTOBUF, not AVRO",
        "schema 99999 is not in the registry",
    ]
