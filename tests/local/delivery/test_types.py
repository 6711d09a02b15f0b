"""Values of every type arrive whole: an audit that shares no code with deliveries finds them equal."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.audit.sinks import sink_findings
from include.control.deliveries import Deliverer
from include.delivery.creating import create, needed
from include.protocol.errors import TerminalError
from tests.support.sink_servers import MariaServer, PostgresServer, SinkServer
from tests.support.stream import Stream

DDL = (
    "id STRING, seq BIGINT, bool BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, big BIGINT, "
    "single FLOAT, double DOUBLE, "
    "exact DECIMAL(30, 10), text STRING, bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "list ARRAY<STRUCT<a: DECIMAL(10, 2), b: ARRAY<STRING>>>, map MAP<STRING, DOUBLE>, "
    "struct STRUCT<x: TIMESTAMP, y: BINARY, z: STRUCT<w: BIGINT>>"
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("bool", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("exact", pa.decimal128(30, 10)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.struct([("a", pa.decimal128(10, 2)), ("b", pa.list_(pa.string()))]))),
        ("map", pa.map_(pa.string(), pa.float64())),
        (
            "struct",
            pa.struct([("x", pa.timestamp("us", "UTC")), ("y", pa.binary()), ("z", pa.struct([("w", pa.int64())]))]),
        ),
        ("_lakemark", pa.struct([("deleted", pa.bool_()), ("offset", pa.int64())])),
    ]
)
MOMENT = datetime(2026, 11, 28, 13, 0, 0, 123456, UTC)
USUAL: dict[str, Any] = {
    "bool": True,
    "tiny": -128,
    "small": 32767,
    "whole": -(2**31),
    "big": 2**63 - 1,
    "single": 1.1,
    "double": 1e-300,
    "exact": Decimal("12345678901234567890.0123456789"),
    "text": 'a, "b"\n\\c\tNULL \U0001f600',
    "bytes": b"\x00\xff'",
    "day": date(2026, 2, 28),
    "at": MOMENT,
    "local": datetime(1970, 1, 1),
    "list": [{"a": Decimal("0.10"), "b": ["x", None, '"']}, None, {"a": None, "b": []}],
    "map": {"k": 1.5, "": None},
    "struct": {"x": MOMENT, "y": b"\x01", "z": {"w": 2**53 + 1}},
}
ROWS: list[dict[str, Any]] = [
    {"id": "all", **USUAL},
    {"id": "nulls"},
    {
        "id": "ALL",
        **USUAL,
        "text": "",
        "bytes": b"",
        "list": [],
        "map": {},
        "struct": {"x": None, "y": None, "z": None},
    },
    {"id": "all ", **USUAL, "text": "NULL", "bool": False, "double": -0.0, "exact": Decimal("0E-10")},
    {"id": "NULL", **USUAL, "day": date(1000, 1, 1), "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)},
]
STRANGE: dict[str, list[dict[str, Any]]] = {  # that one of the systems has
    "postgresql": [
        {"id": "nan", "single": nan, "double": -inf, "map": {"k": nan}},
        {"id": "early", "day": date(1, 1, 1), "at": datetime(1, 1, 1, tzinfo=UTC)},
        {"id": "nul", "text": "a\0b", "list": [{"a": None, "b": ["\0"]}]},
    ],
    "mysql": [{"id": "nul", "text": "a\0b"}, {"id": "early", "day": date(1, 1, 1)}],
}


def delivered(
    folder: Path, server: SinkServer, patch: pytest.MonkeyPatch, rows: list[dict[str, Any]], **types: str
) -> list[str]:
    """What an audit finds once the rows are delivered. Args: types: declared ones."""
    stream = Stream.of(folder, patch, DDL, SCHEMA, app=server.section(begin="start", types=types))
    settings, pipeline = stream.coordinator.settings, stream.coordinator.pipeline
    create(pipeline, "app", needed(pipeline, "app"))
    write_deltalake(stream.target, pa.Table.from_pylist(rows, SCHEMA), mode="append")
    assert Deliverer(settings, pipeline, "app").deliver() is not None
    [(number,)] = server.rows("SELECT count(*) FROM orders")
    assert number == len(rows)
    return [finding.what for finding in sink_findings(settings, pipeline, "app")]


def test_values_of_every_type_arrive_whole(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert delivered(tmp_path, server, monkeypatch, [*ROWS, *STRANGE[server.system]]) == []


AS_TEXTS = ("bool", "big", "single", "double", "exact", "day", "at", "local", "list", "map", "struct")


def test_declared_types_keep_every_value(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a type of its own in the lake is a text in the sink, also what the system has no value for."""
    text = "text" if server.system == "postgresql" else "longtext"
    rows = [*ROWS, {"id": "nan", "single": nan, "double": -inf}, {"id": "early", "at": datetime(1, 1, 1, tzinfo=UTC)}]
    assert delivered(tmp_path, server, monkeypatch, rows, **dict.fromkeys(AS_TEXTS, text), small="bigint") == []


DOCUMENT = '{"b": 1.10, "a": [null, "x"]}'
IDENTIFIER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


def test_texts_in_types_of_the_server_are_compared_as_it_keeps_them(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    rows = [{"id": IDENTIFIER, "text": DOCUMENT}]
    assert delivered(tmp_path, postgres, monkeypatch, rows, text="jsonb", id="uuid") == []
    assert postgres.rows("SELECT text->>'b' FROM orders") == [("1.10",)]
    postgres.clear()
    folder = tmp_path / "b"
    folder.mkdir()
    with pytest.raises(TerminalError, match="a text that a column of type uuid would not keep as it is, id"):
        delivered(folder, postgres, monkeypatch, [{"id": IDENTIFIER.upper()}], id="uuid")


@pytest.mark.parametrize(
    ("row", "types"),
    [
        ({"id": "a", "text": "abc   "}, {"text": "varchar(3)"}),  # PostgreSQL would cut these spaces
        ({"id": "a", "text": "abcd"}, {"text": "varchar(3)"}),
        ({"id": "a\0"}, {}),  # of two keys, NUL and U+FFFD, it would make one
    ],
)
def test_a_text_that_a_server_would_change_ends_the_delivery(
    tmp_path: Path,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    row: dict[str, Any],
    types: dict[str, str],
) -> None:
    postgres.clear()
    with pytest.raises(TerminalError, match="would not keep as it is"):
        delivered(tmp_path, postgres, monkeypatch, [row], **types)
    assert postgres.rows("SELECT count(*) FROM orders") == [(0,)]


_LATER = ("STRING", "DECIMAL(38,18)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "BOOLEAN", "DOUBLE")
LATER = (
    *_LATER,
    "ARRAY<DATE>",
    "MAP<STRING, STRUCT<a: TIMESTAMP>>",
    "STRUCT<a: INT, b: ARRAY<STRUCT<c: TIMESTAMP_NTZ>>>",
)


def test_rows_from_before_a_column_came_are_delivered(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the columns, and the commits that still wait are from before."""
    ddl = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(LATER))
    stream = Stream.of(tmp_path, monkeypatch, f"id BIGINT, seq BIGINT, {ddl}", app=server.section(begin="start"))
    settings, pipeline = stream.coordinator.settings, stream.coordinator.pipeline
    create(pipeline, "app", needed(pipeline, "app"))
    stream.land()
    assert Deliverer(settings, pipeline, "app").deliver() is not None
    assert server.rows("SELECT count(*) FROM orders WHERE c0 IS NULL") == [(len(stream.rows),)]
    assert [*sink_findings(settings, pipeline, "app")] == []


NESTED = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("a", pa.list_(pa.float32())),
        ("b", pa.map_(pa.string(), pa.float32())),
        ("c", pa.map_(pa.string(), pa.decimal128(38, 18))),
        ("d", pa.map_(pa.string(), pa.map_(pa.string(), pa.binary()))),
        ("_lakemark", pa.struct([("deleted", pa.bool_()), ("offset", pa.int64())])),
    ]
)
NESTED_DDL = (
    "id STRING, seq BIGINT, a ARRAY<FLOAT>, b MAP<STRING, FLOAT>, c MAP<STRING, DECIMAL(38, 18)>, "
    "d MAP<STRING, MAP<STRING, BINARY>>"
)


def test_nested_values_arrive_whole_and_one_that_differs_is_found(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream.of(tmp_path, monkeypatch, NESTED_DDL, NESTED, app=server.section(begin="start"))
    settings, pipeline = stream.coordinator.settings, stream.coordinator.pipeline
    create(pipeline, "app", needed(pipeline, "app"))
    row = {
        "id": "a",
        "seq": 1,
        "a": [1.1, nan, inf, 16777216.0],
        "b": [('a "b"', 1.1), ("", None)],
        "c": [("c", Decimal("12345678901234567890.123456789012345678"))],
        "d": [("d", [("e", b"\0\xff")])],
    }
    write_deltalake(stream.target, pa.Table.from_pylist([row], NESTED), mode="append")
    assert Deliverer(settings, pipeline, "app").deliver() is not None
    assert [*sink_findings(settings, pipeline, "app")] == []
    server.rows("UPDATE orders SET c = '{\"c\": 12345678901234567890.123456789012345679}'")
    assert ["other values" in finding.what for finding in sink_findings(settings, pipeline, "app")] == [True]


def test_a_value_that_mysql_lacks_ends_the_delivery(
    tmp_path: Path, maria: MariaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither cut nor replaced."""
    for table in maria.tables():
        maria.rows(f"DROP TABLE {table}")
    with pytest.raises(TerminalError, match="do not fit"):
        delivered(tmp_path, maria, monkeypatch, [{"id": "nan", "double": nan}])
