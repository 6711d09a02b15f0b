"""Kafka's key and Kafka's own fields as columns, keys that must be exact, and tombstones."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.decoding import CONNECT, SENT_AT, a_pipeline, decoded, of_debezium, shown

_NUMBERS = {"debezium-json": {"debezium": {"decimals": "string"}}}


@pytest.mark.parametrize("tombstones", ["quarantine", "ignore", "delete"])
@pytest.mark.parametrize("key", ["json", "string"])
def test_a_tombstone_is_what_the_file_says(spark: SparkSession, tombstones: str, key: Any) -> None:
    change = {"tombstones": tombstones, "order_by": ["kafka.timestamp"]}
    pipeline = a_pipeline("id BIGINT, name STRING", change, key=key)
    raw = {"id": 7} if key == "json" else b"7"
    row, bad = decoded(spark, pipeline, [(raw, None), (b"?", None)])
    lineage = row["row"].pop("_lakemark")
    told = (row["reason"], row["filtered"], lineage["deleted"])
    assert told == {
        "quarantine": ("null value", False, False),
        "ignore": (None, True, False),
        "delete": (None, False, True),
    }.get(tombstones)
    assert row["row"] == {"id": 7, "name": None}
    assert lineage["change_order"]["kafka.timestamp"].astimezone(UTC) == SENT_AT
    if tombstones == "delete":
        assert bad["reason"] == "null in a key column (id)"


def test_columns_from_the_key_and_from_kafka_and_order_by_a_field_of_a_struct(spark: SparkSession) -> None:
    pipeline = a_pipeline(
        "id BIGINT, name STRING, meta STRUCT<lsn: BIGINT>",
        {"order_by": ["meta.lsn", "sent_at"]},
        key="json",
        metadata={"sent_at": "timestamp", "place": "offset", "shard": "partition", "source_topic": "topic", "k": "key"},
    )
    [row] = decoded(spark, pipeline, [({"id": 5}, {"name": "n", "meta": {"lsn": 9}})])
    lineage = row["row"].pop("_lakemark")
    sent_at = row["row"].pop("sent_at")
    assert sent_at.astimezone(UTC) == SENT_AT
    assert row["row"] == {
        "id": 5,
        "name": "n",
        "meta": {"lsn": 9},
        "place": 0,
        "shard": 0,
        "source_topic": "t",
        "k": '{"id": 5}',
    }
    assert lineage["change_order"]["meta.lsn"] == 9


def test_a_key_may_be_named_payload(spark: SparkSession) -> None:
    pipeline = a_pipeline("payload BIGINT, name STRING", {"keys": ["payload"]}, key="json")
    [row] = decoded(spark, pipeline, [(b'{"payload": 7}', {"name": "n"})])
    assert row["row"]["payload"] == 7


@pytest.mark.parametrize("format_", ["json", "csv", "debezium-json"])
def test_i9_keys_that_are_not_exactly_what_is_declared_do_not_become_one(spark: SparkSession, format_: str) -> None:
    """If they were rounded, or cut to microseconds, two keys would become one, and one row would replace the other."""
    of_type = {
        "DECIMAL(4, 1)": {"1.25": False, "1.3": True, "1.30": True, "1.250": False, "13e-1": True},
        "DECIMAL(2)": {"1.4": False, "1": True, "1.0": True},
        "TIMESTAMP": {"2024-01-01T00:00:00.1234567Z": False, "2024-01-01T00:00:00.1234560Z": True},
    }
    for type_, texts in of_type.items():
        pipeline = a_pipeline(f"id {type_}, name STRING", {}, format=format_, **_NUMBERS.get(format_, {}))
        values = [f"{text},x".encode() if format_ == "csv" else {"id": text, "name": "x"} for text in texts]
        if format_ == "debezium-json":
            values = [{"op": "c", "after": value} for value in values]
        found = decoded(spark, pipeline, [(None, value) for value in values])
        said = [row["reason"] for row in found]
        none = f"column id is no {type_} exactly, as a key has to be"
        assert [reason is None for reason in said] == list(texts.values()), (type_, said)
        assert all(
            reason.startswith(none.replace("(2)", "(2, 0)" if format_ == "json" else "(2)"))
            for reason in said
            if reason
        )


@pytest.mark.parametrize("key", ["string", "json"])
def test_i9_keys_of_kafka_that_are_not_exactly_what_is_declared_do_not_become_one(
    spark: SparkSession, key: str
) -> None:
    pipeline = a_pipeline("id DECIMAL(4, 1), name STRING", {}, key=key)
    texts = ["1.25", "1.3", "1.30"]
    keys = [text.encode() if key == "string" else f'{{"id": {text}}}'.encode() for text in texts]
    rows = decoded(spark, pipeline, [(key, {"name": "n"}) for key in keys])
    assert [row["row"]["id"] for row in rows] == [None, Decimal("1.3"), Decimal("1.3")]
    assert rows[0]["reason"] == "null in a key column (id)"


def test_i9_an_old_key_that_is_not_exactly_what_is_declared_moves_nobody(spark: SparkSession) -> None:
    schema = "id DECIMAL(4, 1), old DECIMAL(4, 1), v STRING"
    told = a_pipeline(schema, {"previous_keys": {"id": "old"}})
    of_images = of_debezium("id DECIMAL(4, 1), v STRING", **_NUMBERS["debezium-json"])
    [plain] = decoded(spark, told, [(None, {"id": 1, "old": 1.25})])
    [moved] = decoded(spark, of_images, [(None, {"op": "u", "before": {"id": 1.25}, "after": {"id": 1}})])
    assert "column old is no DECIMAL(4, 1) exactly" in plain["reason"]
    assert "in `before`: column id is no DECIMAL(4, 1) exactly" in moved["reason"]


def test_a_key_that_is_no_text_is_none(spark: SparkSession) -> None:
    pipeline = a_pipeline("id STRING, name STRING", {}, key="string")
    rows = decoded(spark, pipeline, [(b"\xff", {"name": "n"}), (b"a", {"name": "n"})])
    assert [(row["reason"], row["row"]["id"]) for row in rows] == [("null in a key column (id)", None), (None, "a")]
    pipeline = a_pipeline("id BIGINT, name STRING", {}, key="json")
    rows = decoded(spark, pipeline, [(key, {"name": "n"}) for key in (b'{"id": 1}{"id": 2}', b'{"id": 1}')])
    assert [row["row"]["id"] for row in rows] == [None, 1]


def test_keys_that_are_no_text_do_not_become_one(spark: SparkSession) -> None:
    """The replacement character would make them equal."""
    pipeline = a_pipeline("name STRING", {"keys": ["raw_key"]}, metadata={"raw_key": "key"})
    keys = [b"\xff", b"\xfe", b"\xef\xbf\xbd"]
    rows = decoded(spark, pipeline, [(key, {"name": "n"}) for key in keys])
    assert [row["reason"] for row in rows] == [*["null in a key column (raw_key)"] * 2, None]


@pytest.mark.parametrize("format_", ["json", "debezium-json"])
def test_a_key_that_is_none_is_not_that_of_the_record_before(spark: SparkSession, format_: str) -> None:
    decimal_ = {"field": "id", "type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "1"}}
    bare, number = {"id": "BNI="} if format_ != "json" else {"id": "12.34"}, {"id": 5}
    keys = [
        number,
        None,
        {"payload": number},
        None,
        bare,
        None,
        {"id": "?"},
        b"?",
        {"schema": {"fields": [decimal_]}, "payload": bare},
        None,
        bare,
    ]
    change = {"tombstones": "delete"}
    rows = decoded(
        spark, a_pipeline("id DECIMAL(12, 2)", change, format=format_, key="json"), [(k, None) for k in keys]
    )
    found = [shown(row["row"]["id"]) for row in rows]
    scaled = "123.40" if format_ != "json" else "12.34"
    assert found == ["5.00", None, "5.00", None, "12.34", None, None, None, scaled, None, "12.34"]
