"""Protobuf in Confluent's wire format, with a real schema registry."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import SparkSession

from include.sources.protobuf_schema import ProtobufSchema
from tests.support.decoding import a_pipeline, decoded, values
from tests.support.registry_records import AT
from tests.support.schema_registry import RegistryServer


def test_protobuf(spark: SparkSession, registry: RegistryServer) -> None:
    money = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }'
    registry.register("money", money, kind="PROTOBUF")
    order = """
        syntax = "proto3"; package shop;
        import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "shop/money.proto";
        message Other { string unused = 1; }
        message Order {
          enum State { NEW = 0; PAID = 1; }
          message Line { string article = 1; int32 pieces = 2; }
          int64 id = 1; optional string name = 2; google.protobuf.Timestamp at = 3; Money price = 4; State state = 5;
          repeated Line lines = 6; map<string, int32> stock = 7; bytes raw = 8; google.protobuf.Int64Value big = 9;
        }"""
    references = [{"name": "shop/money.proto", "subject": "money", "version": 1}]
    number = registry.register("order", order, references, "PROTOBUF")

    files = descriptor_pb2.FileDescriptorSet.FromString(
        ProtobufSchema.of(order, {"shop/money.proto": money}).descriptors
    )
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    order_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    line_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order.Line"))

    def sent(message: Any, *indexes: int) -> tuple[None, bytes]:
        head = bytes([len(indexes) * 2, *(2 * index for index in indexes)])  # zigzag varints
        return None, b"\0" + number.to_bytes(4, "big") + head + message.SerializeToString()

    whole = order_class(id=2**40, name="Anne", state=1, raw=b"\0\1")
    whole.at.FromDatetime(AT.replace(tzinfo=None))
    whole.price.cents, whole.price.currency = 1250, "NOK"
    whole.lines.add(article="lamp", pieces=2)
    whole.stock["a"] = 7
    whole.big.value = 2**50
    schema = "id BIGINT, name STRING, at TIMESTAMP, price STRUCT<cents: BIGINT, currency: STRING>, state STRING, "
    schema += "lines ARRAY<STRUCT<article: STRING, pieces: INT>>, stock MAP<STRING, INT>, raw BINARY, big BIGINT"
    pipeline = a_pipeline(schema, {"absent": "keep"}, format="protobuf", registry={"url": registry.url})
    rows = decoded(
        spark,
        pipeline,
        [
            sent(whole, 1),
            sent(order_class(id=3), 1),
            sent(line_class(article="x"), 1, 0),
            (None, b"\0" + number.to_bytes(4, "big") + b"\x02\x02\xff\xff"),
            (None, b"\0\0\1\xff\xff\0"),
            (None, b"{}"),
            (None, None),
        ],
    )
    at = AT.replace(tzinfo=None)
    money_row, lines = {"cents": 1250, "currency": "NOK"}, [{"article": "lamp", "pieces": 2}]
    expected = (2**40, "Anne", at, money_row, "PAID", lines, {"a": 7}, bytearray(b"\0\1"), 2**50)
    assert values(rows[0]) == expected
    assert (values(rows[1])[0], values(rows[1])[4]) == (3, "NEW")  # without presence: the default
    assert sorted(rows[1]["absent"]) == ["at", "big", "name", "price"]
    assert [row["reason"] for row in rows] == [
        None,
        None,
        "null in a key column (id)",  # another message of the file
        "not decodable with the declared schema",
        "schema 131071 is not in the registry",
        "not in the wire format of a schema registry: a zero byte and the id of a schema come first",
        "null value",
    ]


def test_a_protobuf_moment_that_is_none_stops_nobody(spark: SparkSession, registry: RegistryServer) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
    text += "message At { int64 id = 1; google.protobuf.Timestamp at = 2; double x = 3; }"
    number = registry.register("at", text, kind="PROTOBUF")
    head = b"\0" + number.to_bytes(4, "big") + b"\0"
    millis_in_seconds = b"\x08\x01\x12\x07\x08" + b"\x80\xd0\x95\xff\xbc\x31"  # 1_700_000_000_000
    pipeline = a_pipeline("id BIGINT, at TIMESTAMP, x DOUBLE", format="protobuf", registry={"url": registry.url})
    not_finite = b"\x08\x01\x19" + b"\x00\x00\x00\x00\x00\x00\xf0\x7f"
    rows = decoded(spark, pipeline, [(None, head + body) for body in (millis_in_seconds, not_finite, b"\x08\x01")])
    assert [row["reason"] for row in rows] == ["not decodable with the declared schema", None, None]
    assert rows[1]["row"]["x"] == float("inf")
