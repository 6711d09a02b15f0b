"""Values of Debezium's JSON: numbers, decimals, days and times, with a schema and without; unavailable ones."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.decoding import CONNECT, TIME, a_pipeline, decoded, of_debezium, read, shown


@pytest.mark.parametrize(
    ("unscaled", "scale", "expected"),
    [
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (127, 0, "127"),
        (128, 0, "128"),
        (-128, 0, "-128"),
        (-129, 0, "-129"),
        (2**56, 0, str(2**56)),
        (-(2**56), 0, str(-(2**56))),
        (2**63 - 1, 4, "922337203685477.5807"),
        (10**38 - 1, 0, "9" * 38),
        (-(10**38) + 1, 10, "-" + "9" * 28 + "." + "9" * 10),
    ],
)
def test_a_decimal_is_the_integer_of_its_bytes(spark: SparkSession, unscaled: int, scale: int, expected: str) -> None:
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1  # as Java's BigInteger has it
    text = b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()
    pipeline = a_pipeline(f"id BIGINT, amount DECIMAL(38, {scale})", {}, format="debezium-json")
    [row] = decoded(spark, pipeline, [(None, {"op": "c", "after": {"id": 1, "amount": text}})])
    assert (row["reason"], str(row["row"]["amount"])) == (None, expected)


def test_a_decimal_whose_scale_is_none_is_no_decimal(spark: SparkSession) -> None:
    scales: list[Any] = [2, "3", 1.5, 2147483648, None]
    pipeline = of_debezium("id BIGINT, v DECIMAL(12, 2)")
    images = [{"id": 1, "v": {"scale": scale, "value": "AQ=="}} for scale in scales]
    rows = decoded(spark, pipeline, [(None, {"op": "c", "after": image}) for image in images])
    assert [row["row"]["v"] for row in rows] == [Decimal("0.01"), *[None] * 4]
    assert all(row["reason"].startswith("column v is no DECIMAL") for row in rows[1:])


def test_debeziums_numbers_are_what_they_are(spark: SparkSession) -> None:
    cases: dict[str, Any] = {
        "1234": "1234.00",  # not the base64 of -26588.24
        "12.5": "12.50",
        '"BNI="': "12.34",
        '{"scale": 1, "value": "AQ=="}': "0.10",
        '{"scale": -2, "value": "AQ=="}': "100.00",
        '{"scale": 2147483647, "value": "AQ=="}': None,
        '"12.50"': None,
    }
    texts = [f'{{"op": "c", "after": {{"id": 1, "v": {value}}}}}' for value in cases]
    found = read(spark, "id BIGINT, v DECIMAL(10,2)", texts, format="debezium-json")
    assert [value for _, value in found] == list(cases.values())
    infinity = ['{"op": "c", "after": {"id": 1, "v": 9223372036825200000}}']  # PostgreSQL's
    [(reason, _)] = read(spark, "id BIGINT, v TIMESTAMP", infinity, format="debezium-json")
    assert reason == "column v is no TIMESTAMP: 9223372036825200000"


def with_fields(image: dict[str, Any], **fields: dict[str, Any]) -> dict[str, Any]:
    """An envelope with its row's schema."""
    row = {"field": "after", "type": "struct", "fields": [{"field": name, **of} for name, of in fields.items()]}
    return {"schema": {"type": "struct", "fields": [row]}, "payload": {"op": "c", "after": image}}


@pytest.mark.parametrize(
    ("type_", "raw", "fields", "expected"),
    [
        ("DECIMAL(12, 2)", "1234", None, "-26588.24"),  # base64
        (
            "DECIMAL(12, 2)",
            "AQ==",
            {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "1"}},
            "0.10",
        ),
        ("DECIMAL(12, 2)", "1234", {"type": "string"}, "1234.00"),
        ("DATE", 19000, None, "2022-01-08"),
        ("DATE", 19000, {"type": "int32", "name": f"{TIME}Year"}, "lost"),
        ("TIMESTAMP", 1700000000000000, None, "2023-11-14T22:13:20+00:00"),
        ("TIMESTAMP", 1700000000000, {"type": "int64", "name": f"{TIME}Timestamp"}, "2023-11-14T22:13:20+00:00"),
    ],
)
def test_debeziums_keys_are_read_as_its_images_are(
    spark: SparkSession, type_: str, raw: Any, fields: dict[str, Any] | None, expected: str
) -> None:
    pipeline = of_debezium(f"id {type_}, v STRING", key="json")
    key: Any = {"id": raw}
    image: Any = {"op": "c", "after": {"id": raw}}
    if fields:
        key = {"schema": {"type": "struct", "fields": [{"field": "id", **fields}]}, "payload": key}
        image = with_fields(image["after"], id=fields)
    gone, there = decoded(spark, pipeline, [(key, {"op": "d"}), (None, image)])
    assert gone["row"]["id"] == there["row"]["id"]
    if expected == "lost":
        assert gone["reason"] == "null in a key column (id)"
    else:
        assert (gone["reason"], there["reason"]) == (None, None)
        assert shown(gone["row"]["id"]) == expected


@pytest.mark.parametrize("absent", ["keep", "nulls"])
def test_an_unavailable_value_of_several_parts(spark: SparkSession, absent: str) -> None:
    text = "__debezium_unavailable_value"
    placeholders = {
        "m MAP<STRING, STRING>": {text: text},
        "a ARRAY<INT>": list(text.encode()),
        "b ARRAY<BIGINT>": list(text.encode()),
        "c ARRAY<BINARY>": [b64encode(text.encode()).decode()],
        "s ARRAY<STRING>": [text],
    }
    values = {column.split()[0]: value for column, value in placeholders.items()}
    pipeline = of_debezium(f"id BIGINT, {', '.join(placeholders)}", {"absent": absent})
    others = {"m": {text: text, "more": "x"}, "a": [1], "b": list(b"_"), "c": ["AP8="], "s": [text, text]}
    images = [{"id": 1, name: value} for name, value in values.items()] + [{"id": 1, **others}]
    *rows, there = decoded(spark, pipeline, [(None, {"op": "c", "after": image}) for image in images])
    if absent == "keep":
        assert [(row["reason"], row["absent"]) for row in rows] == [(None, [name]) for name in values]
        assert all(row["row"][name] is None for name, row in zip(values, rows, strict=True))
    else:
        said = [f"column {name} is not in the change (unavailable value)" for name in values]
        assert [row["reason"] for row in rows] == said
    assert (there["reason"], there["absent"] or []) == (None, [])
    assert there["row"]["b"] == list(b"_")


def test_a_records_schema_says_what_its_numbers_are(spark: SparkSession) -> None:
    at, day = "2023-11-14T22:13:20+00:00", "2024-01-01"
    decimal_ = {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}}
    cases: list[tuple[str, Any, dict[str, Any], str | None]] = [
        ("d", "1234", {"type": "string"}, "1234.00"),
        ("d", "AQ==", decimal_, "0.01"),
        ("d", "AQ==", {"type": "bytes"}, None),
        ("d", 12.5, {"type": "double"}, "12.50"),
        *(("t", 19723, {"type": "int32", "name": f"{prefix}Date"}, None) for prefix in (TIME, CONNECT)),
        *(("t", 36000000, {"type": "int64", "name": f"{TIME}{name}"}, None) for name in ("MicroTime", "Time", "Year")),
        ("t", 1700000000000000, {"type": "int64", "name": f"{TIME}MicroTimestamp"}, at),
        ("t", 1700000000000, {"type": "int64", "name": f"{CONNECT}Timestamp"}, at),
        ("t", 1700000000000, {"type": "int64"}, at),
        ("t", "2023-11-14T22:13:20Z", {"type": "string", "name": f"{TIME}ZonedTimestamp"}, at),
        ("t", "20240101", {"type": "string"}, None),
        *(("b", 19723, {"type": "int32", "name": f"{prefix}Date"}, day) for prefix in (TIME, CONNECT)),
        *(("b", 2024, {"type": "int32", "name": f"{TIME}{name}"}, None) for name in ("Year", "Time", "Timestamp")),
        ("b", 19723, {"type": "int32"}, day),
    ]
    records = [(None, with_fields({"id": 1, name: raw}, **{name: fields})) for name, raw, fields, _ in cases]
    schema = "id BIGINT, d DECIMAL(12, 2), t TIMESTAMP, b DATE"
    rows = decoded(spark, of_debezium(schema, debezium={"timestamps": "millis"}), records)
    found = [shown(row["row"][case[0]]) for case, row in zip(cases, rows, strict=True)]
    assert found == [expected for *_, expected in cases]
    assert [row["reason"] is None for row in rows] == [expected is not None for *_, expected in cases]
    of_text = of_debezium(schema, debezium={"decimals": "string"})
    [row] = decoded(spark, of_text, [(None, with_fields({"id": 1, "d": "1234"}, d=decimal_))])
    assert row["row"]["d"] == Decimal("-26588.24")
