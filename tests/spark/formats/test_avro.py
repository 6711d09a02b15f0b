"""Avro in Confluent's wire format, with a real schema registry."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from tests.support.decoding import a_pipeline, decoded, values
from tests.support.registry_records import AT, framed, record
from tests.support.schema_registry import RegistryServer


def test_records_of_several_schemas_in_one_batch(spark: SparkSession, registry: RegistryServer) -> None:
    first = record("Order", ("id", "long"), ("name", ["null", "string"]))
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-micros"}
    second = record("Order", ("id", "int"), ("name", "string"), ("price", ["null", price]), ("at", at), ("more", "int"))
    ids = registry.register("orders-1", first), registry.register("orders-2", second)
    whole = {"id": 2, "name": "Bert", "price": Decimal("12.50"), "at": AT, "more": 1}
    source = {"format": "avro", "registry": {"url": registry.url}}
    pipeline = a_pipeline("id BIGINT, name STRING, price DECIMAL(12, 2), at TIMESTAMP", {"absent": "keep"}, **source)
    good = [
        (None, framed(ids[0], first, {"id": 1, "name": "Anne"})),
        (None, framed(ids[1], second, whole)),
        (None, framed(ids[0], first, {"id": 3, "name": None})),
    ]
    bad = [
        (None, b'{"id": 1}'),
        (None, framed(99_999, first, {"id": 4, "name": None})),
        (None, good[1][1][:7]),
        (None, None),
    ]
    rows = decoded(spark, pipeline, good + bad)
    assert [values(row) for row in rows[:3]] == [
        (1, "Anne", None, None),
        (2, "Bert", Decimal("12.50"), AT.replace(tzinfo=None)),
        (3, None, None, None),
    ]
    assert [row["absent"] for row in rows[:3]] == [["price", "at"], [], ["price", "at"]]  # as the writer knew of none
    assert [row["reason"] for row in rows] == [
        *(None,) * 3,
        "not in the wire format of a schema registry: a zero byte and the id of a schema come first",
        "schema 99999 is not in the registry",
        "not decodable with the declared schema",
        "null value",
    ]


def test_a_value_of_another_type_and_a_number_that_says_nothing_are_set_aside(
    spark: SparkSession, registry: RegistryServer
) -> None:
    schema = record("Strange", ("id", "string"), ("at", "long"))
    number = registry.register("strange", schema)
    pipeline = a_pipeline("id BIGINT, at TIMESTAMP", format="avro", registry={"url": registry.url})
    rows = decoded(spark, pipeline, [(None, framed(number, schema, {"id": text, "at": 5})) for text in ("seven", "7")])
    assert [row["reason"] for row in rows] == ["column id is no BIGINT", "column at is no TIMESTAMP"]


def test_what_does_not_fit_is_rescued(spark: SparkSession, registry: RegistryServer) -> None:
    change = {"on_schema_change": "rescue"}
    schema = record("Wide", ("id", "long"), ("name", "string"), ("more", ["null", "int"]), ("at", "string"))
    number = registry.register("wide", schema)
    columns = "id BIGINT, name STRING, at TIMESTAMP"
    pipeline = a_pipeline(columns, change, format="avro", registry={"url": registry.url})
    fits = {"id": 1, "name": "Anne", "more": None, "at": "2024-02-29T12:34:56.789012Z"}
    values_of = [fits, {**fits, "more": 5}, {**fits, "at": "soon"}]
    rows = decoded(spark, pipeline, [(None, framed(number, schema, value)) for value in values_of])
    assert [row["row"]["_rescued"] for row in rows] == [None, '{"more":5}', '{"at":"soon"}']
    assert [row["reason"] for row in rows] == [None, None, None]
    decides = a_pipeline(
        columns, {**change, "delete_when": "at < now()"}, format="avro", registry={"url": registry.url}
    )
    [row] = decoded(spark, decides, [(None, framed(number, schema, values_of[2]))])
    assert row["reason"] == "column at is no TIMESTAMP"

    pipeline = a_pipeline(columns, change)
    lines = [
        '{"id": 1, "name": "Anne"}',
        '{"id": 1, "nested": {"a": [1]}, "name": null}',
        '{"id": 2, "at": "soon"}',
        '{"id": "x", "name": "B"}',
        "[1]",
        "{",
    ]
    rows = decoded(spark, pipeline, [(None, line.encode()) for line in lines])
    kept = [row["row"]["_rescued"] for row in rows[:4]]
    assert kept == [None, '{"nested":"{\\"a\\":[1]}"}', '{"at":"soon"}', '{"id":"x"}']
    assert values(rows[3])[1] == "B"
    none = "not a JSON object"
    assert [row["reason"] for row in rows] == [*(None,) * 3, "column id is no BIGINT", none, none]


def test_an_avro_value_becomes_what_it_says_or_the_record_is_set_aside(
    spark: SparkSession, registry: RegistryServer
) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    inner = record("Inner", ("city", "string"), ("name", "string"))
    cases: list[tuple[Any, Any, str, Any]] = [  # schema, value, declared type, what it becomes
        (millis, AT, "BIGINT", None),
        (millis, AT, "TIMESTAMP", AT.replace(tzinfo=None, microsecond=789000)),
        ("double", 1.9, "BIGINT", None),
        ("double", 2.0, "BIGINT", 2),
        ("double", float("inf"), "BIGINT", None),
        ("double", 1e300, "FLOAT", None),
        ("long", 2**40, "INT", None),
        (["null", "string", "long"], "abc", "STRING", "abc"),
        (["null", "string", "long"], 7, "STRING", "7"),
        (["null", "string", "long"], "abc", "BIGINT", None),
        ("bytes", b"\xff", "STRING", None),
        ("bytes", b"text", "STRING", "text"),
        (inner, {"city": "Oslo", "name": "Ann"}, "STRUCT<name: STRING, city: STRING>", {"name": "Ann", "city": "Oslo"}),
        (inner, {"city": "Oslo", "name": "Ann"}, "STRING", None),
        ({"type": "array", "items": "double"}, [1.0, 1.5], "ARRAY<INT>", None),
        ({"type": "map", "values": "long"}, {"a": 1}, "MAP<STRING, INT>", {"a": 1}),
        ("string", "10:20:30", "TIMESTAMP", None),
        ("long", 5, "TIMESTAMP", None),
        ({"type": "long", "logicalType": "time-micros"}, 1_234_567, "INT", 1_234_567),
        ({"type": "int", "logicalType": "time-millis"}, 1_234, "BIGINT", 1_234),
    ]
    for n, (schema, value, type_, expected) in enumerate(cases):
        whole = record(f"Case{n}", ("id", "long"), ("v", schema))
        number = registry.register(f"case-{n}", whole)
        pipeline = a_pipeline(f"id BIGINT, v {type_}", format="avro", registry={"url": registry.url})
        [row] = decoded(spark, pipeline, [(None, framed(number, whole, {"id": 1, "v": value}))])
        said = None if expected is not None else f"column v is no {type_}"
        assert row["reason"] == said, (schema, value, type_)
        assert said or row["row"]["v"] == expected, (schema, value, type_)


def test_i9_keys_that_are_not_exactly_what_is_declared_do_not_become_one(
    spark: SparkSession, registry: RegistryServer
) -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    cases: list[tuple[Any, Any, str, bool]] = [  # schema, value, declared type, whether it is exactly that
        (amount, Decimal("1.25"), "DECIMAL(4, 1)", False),
        (amount, Decimal("1.30"), "DECIMAL(4, 1)", True),
        ("double", 1.25, "DECIMAL(4, 1)", False),
        ("double", 0.1, "DECIMAL(4, 1)", True),
        ("string", "1.25", "DECIMAL(4, 1)", False),
        (["null", "string"], "1.3", "DECIMAL(4, 1)", True),
        (nanos, 1_700_000_000_000_000_001, "TIMESTAMP", False),
        (nanos, 1_700_000_000_000_001_000, "TIMESTAMP", True),
    ]
    for n, (schema, value, type_, is_exact) in enumerate(cases):
        whole = record(f"Key{n}", ("id", schema))
        number = registry.register(f"key-{n}", whole)
        pipeline = a_pipeline(f"id {type_}", format="avro", registry={"url": registry.url})
        [row] = decoded(spark, pipeline, [(None, framed(number, whole, {"id": value}))])
        none = f"column id is no {type_} exactly, as a key has to be"
        assert row["reason"] == (None if is_exact else none), (schema, value, type_)


def test_a_value_that_loses_a_part_is_lost_whole_and_rescued(spark: SparkSession, registry: RegistryServer) -> None:
    inner = record("Parts", ("a", "string"), ("b", "long"))
    whole = record("Whole", ("id", "long"), ("s", inner), ("l", {"type": "array", "items": "string"}))
    number = registry.register("whole", whole)
    values = {"id": 1, "s": {"a": "abc", "b": 5}, "l": ["1", "x"]}
    columns = "id BIGINT, s STRUCT<a: BIGINT, b: BIGINT>, l ARRAY<BIGINT>"
    pipeline = a_pipeline(columns, {"on_schema_change": "rescue"}, format="avro", registry={"url": registry.url})
    [row] = decoded(spark, pipeline, [(None, framed(number, whole, values))])
    assert (row["reason"], row["row"]["s"], row["row"]["l"]) == (None, None, None)
    assert row["row"]["_rescued"] == '{"s":{"a":"abc","b":5},"l":["1","x"]}'
