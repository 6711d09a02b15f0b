"""What the registry holds: schemas that refer to others, schemas of no use; and a registry that does not answer."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from include.protocol.errors import RetryableError
from include.sources.avro_schema import AvroSchema
from include.sources.schema_registry import NoSchema, SchemaRegistry
from tests.support.decoding import a_pipeline, decoded, values
from tests.support.registry_records import framed, record
from tests.support.schema_registry import RegistryServer


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
        f"schema {numbers[1]} is none that Spark can read",
        f"schema {numbers[2]} is none that Spark can read",
        f"schema {numbers[3]} is no record",
        f"schema {numbers[4]} is of type PROTOBUF, not AVRO",
        "schema 99999 is not in the registry",
    ]
