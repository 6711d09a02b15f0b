"""The second opinion of `audit --deep` reads values as docs/semantics.md, "Values", says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from include.pipeline_file import load_pipeline
from include.sources.duckdb_records import decoded, load
from include.sources.kafka_records import Record

FILE: dict[str, Any] = {
    "name": "orders",
    "source": {"bootstrap_servers": "k:1", "topics": ["orders"]},
    "change": {"keys": ["id"], "order_by": ["kafka.timestamp"]},
    "target": {"table": "lake://silver/orders"},
}


def rows(folder: Path, schema: str, values: list[bytes], keys: Sequence[bytes | None] = (), **source: Any) -> list:
    path = folder / "orders.yaml"
    path.write_text(yaml.safe_dump({**FILE, "source": {**FILE["source"], "schema": schema, **source}}))
    pipeline = load_pipeline(path, {})
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    pairs = zip(keys or [None] * len(values), values, strict=True)
    load(database, pipeline, [[Record("orders", 0, n, at, key, value, []) for n, (key, value) in enumerate(pairs)]])
    return database.sql(f"SELECT * FROM ({decoded(pipeline, 'records')}) ORDER BY _offset").to_arrow_table().to_pylist()


def values_of(folder: Path, type_: str, json: list[str], **source: Any) -> list:
    found = rows(folder, f"id BIGINT, v {type_}", [f'{{"id": 1, "v": {text}}}'.encode() for text in json], **source)
    assert not any(row["_undecodable"] for row in found)
    return [row["v"] for row in found]


@pytest.mark.parametrize(
    ("unit", "count", "shown"),
    [
        ("seconds", "1700000000", datetime(2023, 11, 14, 22, 13, 20)),
        ("seconds", "-62135596800", datetime(1, 1, 1)),
        ("millis", "1700000000123", datetime(2023, 11, 14, 22, 13, 20, 123_000)),
        ("micros", "1700000000123456", datetime(2023, 11, 14, 22, 13, 20, 123_456)),
        ("nanos", "1700000000123456789", datetime(2023, 11, 14, 22, 13, 20, 123_456)),
        ("nanos", "-1", datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        ("millis", '"1700000000123"', datetime(2023, 11, 14, 22, 13, 20, 123_000)),
        ("seconds", "9999999999999999", None),
        ("millis", "1.5", None),
        (None, "1700000000", None),
    ],
)
def test_numbers_are_moments_by_their_unit(tmp_path: Path, unit: str | None, count: str, shown: datetime) -> None:
    source = {"timestamps": unit} if unit else {}
    assert values_of(tmp_path, "TIMESTAMP_NTZ", [count], **source) == [shown]
    assert values_of(tmp_path, "TIMESTAMP", [count], **source) == [shown and shown.replace(tzinfo=UTC)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-06-01T12", datetime(2024, 6, 1, 12)),
        ("2024-06-01 12:30", datetime(2024, 6, 1, 12, 30)),
        ("2024-06-01 1:2:3", datetime(2024, 6, 1, 1, 2, 3)),
        ("2024-6-1", datetime(2024, 6, 1)),
        ("2024-06-01T12:00:00+02:00", datetime(2024, 6, 1, 10)),
        ("2024-06-01T12:00:00+2", datetime(2024, 6, 1, 10)),
        ("2024-06-01T12:00:00 -0230", datetime(2024, 6, 1, 14, 30)),
        ("2024-06-01T12:00:00+01:00:30", datetime(2024, 6, 1, 10, 59, 30)),
        ("2024-06-01T12:00:00.1234569Z", datetime(2024, 6, 1, 12, 0, 0, 123_456)),
        ("2024-06-01T12:00:00.1+18:00", datetime(2024, 5, 31, 18, 0, 0, 100_000)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        ("0001-01-01", datetime(1, 1, 1)),
        ("0000-12-31T23:59:00-00:01", datetime(1, 1, 1)),
        ("0001-01-01T00:00:00+01:00", None),
        ("2024-06-01T12:00:00+18:01", None),
        ("2024-06-01T24:00:00", None),
        ("2024-02-30", None),
        ("2024-06", None),
        ("2024-06-01T12:00:00 CET", None),
    ],
)
def test_texts_are_moments_and_without_an_offset_utc(tmp_path: Path, text: str, shown: datetime | None) -> None:
    """A TIMESTAMP_NTZ is the wall clock of UTC."""
    assert values_of(tmp_path, "TIMESTAMP_NTZ", [f'"{text}"']) == [shown]
    assert values_of(tmp_path, "TIMESTAMP", [f'"{text}"']) == [shown and shown.replace(tzinfo=UTC)]


def test_what_is_no_text_is_its_json_as_it_is_written_where_a_string_is_declared(tmp_path: Path) -> None:
    shown = {
        "1.50": "1.50",
        "1E2": "1E2",
        "-0": "-0",
        "12345678901234567890123": "12345678901234567890123",
        '{"a": [1, 2.0, null], "b c" : true}': '{"a":[1,2.0,null],"b c":true}',
        "[ ]": "[]",
        r'["\u00e4\u001f\n\"\\\/"]': r'["ä\u001F\n\"\\/"]',
        r'"\u0000x\ud83d\ude00"': "\0x\N{GRINNING FACE}",
        '"1.50"': "1.50",
        "null": None,
    }
    assert values_of(tmp_path, "STRING", list(shown)) == list(shown.values())


def test_values_within_others_are_read_alike(tmp_path: Path) -> None:
    type_ = "STRUCT<s: STRING, t: ARRAY<TIMESTAMP>, m: MAP<STRING, TIMESTAMP>, d: DECIMAL(20, 2), `a-b`: INT>"
    value = '{"s": 1.50, "t": [1000, "2024-06-01T12"], "m": {"x": 1}, "d": 1234567890123456.785, "a-b": 5, "more": 1}'
    [found] = values_of(tmp_path, type_, [value], timestamps="millis")
    second, noon = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2024, 6, 1, 12, tzinfo=UTC)
    assert (found["s"], found["t"], found["a-b"]) == ("1.50", [second, noon], 5)
    assert dict(found["m"]) == {"x": datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)}
    assert found["d"] == Decimal("1234567890123456.79")  # as a double it has no such place


def test_numbers_are_exact(tmp_path: Path) -> None:
    decimals = ["2.345", '"2.345"', "1e3", "-0.005", "12345678901234567890.125", "1e300", '"x"']
    expected = ["2.35", "2.35", "1000", "-0.01", "12345678901234567890.13", None, None]
    assert values_of(tmp_path, "DECIMAL(30, 2)", decimals) == [e and Decimal(e) for e in expected]
    assert values_of(tmp_path, "FLOAT", ["16777217", "0.1", '"-INF"', "1e39"]) == [
        16777216.0,
        0.10000000149011612,
        float("-inf"),
        None,
    ]
    assert values_of(tmp_path, "DOUBLE", ["9007199254740993", "1e-350", "1e22"]) == [9007199254740992.0, 0.0, 1e22]
    assert values_of(tmp_path, "BIGINT", ["9223372036854775807", "-0", "9223372036854775808", "1.0"]) == [
        9223372036854775807,
        0,
        None,
        None,
    ]
    assert values_of(tmp_path, "DATE", ['"2024-6-1"', '"2024-06-01T00:00Z"', '"2024-06-01T01:00"']) == [
        date(2024, 6, 1),
        date(2024, 6, 1),
        None,
    ]
    assert values_of(tmp_path, "BINARY", ['"AAEC/w=="', '"AAE"']) == [b"\x00\x01\x02\xff", None]
    assert values_of(tmp_path, "BOOLEAN", ["true", "1"]) == [True, None]


def test_what_is_no_object_is_undecodable(tmp_path: Path) -> None:
    nested = b'{"id": 1, "v": ' + b"[" * 998 + b"]" * 998 + b"}"  # a job reads a thousand levels
    found = rows(
        tmp_path, "id BIGINT, v STRING", [b"{", b"[]", b'{"v": NaN}', b'{"v": "\xff"}', rb'{"v": "\ud800"}', nested]
    )
    assert [row["_undecodable"] for row in found] == [True] * 5 + [False]
    assert found[-1]["v"] == "[" * 998 + "]" * 998


def test_keys_are_read_alike(tmp_path: Path) -> None:
    keys = [b'{"id": "2024-06-01T12"}', b'{"schema": {}, "payload": {"id": 5000}}', None]
    found = rows(tmp_path, "id TIMESTAMP", [b"{}"] * 3, keys, key="json", timestamps="millis")
    shown = [datetime(2024, 6, 1, 12, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)]
    assert [row["id"] for row in found] == [*shown, None]
    found = rows(tmp_path, "id TIMESTAMP", [b"{}"] * 2, [b"2024-06-01T12", b"5000"], key="string", timestamps="millis")
    assert [row["id"] for row in found] == shown


def test_kafkas_own_fields_are_texts_as_the_job_has_them(tmp_path: Path) -> None:
    """In bytes that are no text, every broken part becomes one character. Such bytes may be a key."""
    keys = {b"\xe2\x82": "\ufffd", b"\xf0\x9f\x92x": "\ufffdx", b"\xed\xa0\x80": "\ufffd" * 3, b"x": "x"}
    found = rows(tmp_path, "seq BIGINT", [b"{}"] * len(keys), list(keys), metadata={"id": "key"})
    assert [row["id"] for row in found] == list(keys.values())
