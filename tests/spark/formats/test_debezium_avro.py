"""Debezium's Avro: envelopes, keys and placeholders."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from tests.support.decoding import a_pipeline, decoded, values
from tests.support.registry_records import AT, framed, record
from tests.support.schema_registry import RegistryServer


def test_debeziums_avro(spark: SparkSession, registry: RegistryServer) -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1}
    date = {"type": "int", "connect.name": "io.debezium.time.Date"}
    loose = record("VariableScaleDecimal", ("scale", "int"), ("value", "bytes"))
    row = record(
        "Value", ("id", "long"), ("note", ["null", "string"]), ("at", ["null", micros]), ("born", date), ("n", loose)
    )
    block = record("Source", ("lsn", ["null", "long"]), ("ts_ms", "long"))
    envelope = record(
        "Envelope", ("before", ["null", row]), ("after", ["null", "Value"]), ("source", block), ("op", "string")
    )
    key = record("Key", ("id", "long"))
    ids = registry.register("debezium-value", envelope), registry.register("debezium-key", key)
    pipeline = a_pipeline(
        "id BIGINT, note STRING, at TIMESTAMP, born DATE, n DECIMAL(12, 3)",
        {"order_by": ["source.lsn"]},
        format="debezium-avro",
        key="avro",
        registry={"url": registry.url},
    )

    def change(op: str, lsn: int, before: Any = None, after: Any = None) -> tuple[bytes, bytes]:
        value = {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": 1}}
        return framed(ids[1], key, {"id": 1}), framed(ids[0], envelope, value)

    image = {
        "id": 1,
        "note": "long",
        "at": 1709210096789012,
        "born": 19782,
        "n": {"scale": 3, "value": b"\x01\xe2\x40"},
    }
    rows = decoded(
        spark,
        pipeline,
        [
            change("r", 1, None, image),
            change("u", 2, None, {**image, "note": "__debezium_unavailable_value"}),
            change("u", 3, {**image, "id": 7}, image),
            change("d", 4),
            (framed(ids[1], key, {"id": 1}), None),
            change("t", 5),
            change("c", 6),
        ],
    )
    day = datetime(2024, 2, 29).date()
    assert values(rows[0]) == (1, "long", AT.replace(tzinfo=None), day, Decimal("123.456"))
    assert (rows[1]["absent"], values(rows[1])[1]) == (["note"], None)
    assert (rows[0]["moved_from"], rows[2]["moved_from"]) == (None, {"id": 7})
    assert [row["row"]["_lakemark"]["deleted"] for row in rows[:5]] == [False, False, False, True, False]
    assert values(rows[3])[0] == 1  # from Kafka's key
    assert [row["filtered"] for row in rows[:5]] == [False, False, False, False, True]
    assert [row["reason"] for row in rows] == [*(None,) * 5, "a truncate event", "the envelope has no row in `after`"]
    assert [row["row"]["_lakemark"]["change_order"]["source.lsn"] for row in rows[:4]] == [1, 2, 3, 4]


def test_debeziums_avro_of_keys_and_placeholders(spark: SparkSession, registry: RegistryServer) -> None:
    text = "__debezium_unavailable_value"
    parts = {
        "m": {"type": "map", "values": "string"},
        "a": {"type": "array", "items": "int"},
        "days": {"type": "array", "items": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        "c": {"type": "array", "items": "bytes"},
    }
    optional = [(name, ["null", type_]) for name, type_ in parts.items()]
    after = record("Value", ("id", "long"), ("n", ["null", "string"]), *optional)
    before = record("Before", ("id", ["null", "string"]), ("n", ["null", "string"]))
    envelope = record("Envelope", ("before", ["null", before]), ("after", ["null", after]), ("op", "string"))
    number = registry.register("old-keys-value", envelope)
    pipeline = a_pipeline(
        "id BIGINT, n INT, m MAP<STRING, STRING>, a ARRAY<INT>, days ARRAY<DATE>, c ARRAY<BINARY>",
        {"order_by": []},
        format="debezium-avro",
        registry={"url": registry.url},
    )

    def change(op: str, before: Any, after: Any) -> tuple[None, bytes]:
        none = dict.fromkeys(parts)
        value = {"op": op, "before": before, "after": after and {"id": 2, "n": None, **none, **after}}
        return None, framed(number, envelope, value)

    of_bytes = list(text.encode())
    placeholders = {"m": {text: text}, "a": of_bytes, "days": of_bytes, "c": [text.encode()]}
    rows = decoded(
        spark,
        pipeline,
        [
            change("u", {"id": "x1", "n": None}, {"n": "5"}),
            change("u", {"id": "1", "n": "x"}, {"n": "5"}),
            change("u", {"id": None, "n": "x"}, {"n": "5"}),
            change("d", {"id": "1", "n": "x"}, None),
            change("d", {"id": "x1", "n": "x"}, None),
            change("u", None, {"n": "x"}),
            change("u", None, placeholders),
        ],
    )
    lost = "column id is no BIGINT"
    assert [row["reason"] for row in rows] == [
        f"in `before`: {lost}",
        *(None,) * 3,
        lost,
        "column n is no INT",
        None,
    ]
    assert [row["moved_from"] for row in rows[1:3]] == [{"id": 1}, None]
    assert rows[6]["absent"] == list(placeholders)
