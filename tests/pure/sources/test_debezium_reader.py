"""The second reader of Debezium's envelopes reads them as docs/semantics.md, "Debezium", says."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from include.pipeline_file import Pipeline
from include.sources.record_readers import key_reader, value_reader

DATE, DECIMAL = "io.debezium.time.Date", "org.apache.kafka.connect.data.Decimal"
UNAVAILABLE = "__debezium_unavailable_value"


def pipeline(schema: str, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "source": {
                "bootstrap_servers": "k:1",
                "topics": ["t"],
                "format": "debezium-json",
                "schema": schema,
                **source,
            },
            "change": {"keys": ["id"], **(change or {})},
            "target": {"table": "lake://silver/p"},
        }
    )


def read(of: Pipeline, envelope: Any) -> dict[str, Any] | None:
    reader = value_reader(of)
    assert reader is not None
    return reader(json.dumps(envelope).encode())


def value(type_: str, node: Any, schema: dict[str, Any] | None = None, **debezium: str) -> Any:
    envelope: dict[str, Any] = {"op": "c", "after": {"id": 1, "v": node}}
    if schema is not None:
        envelope = {
            "payload": envelope,
            "schema": {"fields": [{"field": "op"}, {"field": "after", "fields": [{"field": "v", **schema}]}]},
        }
    found = read(pipeline(f"id BIGINT, v {type_}", debezium=debezium), envelope)
    assert found is not None
    return found["row"]["v"]


@pytest.mark.parametrize(
    ("type_", "node", "schema", "options", "shown"),
    [
        ("DECIMAL(10, 2)", "AeJA", None, {}, "1234.56"),
        ("DECIMAL(10, 2)", "/w==", None, {}, "-0.01"),
        ("DECIMAL(10, 2)", {"scale": 3, "value": "AeJA"}, None, {}, "123.46"),
        ("DECIMAL(10, 2)", {"value": "AeJA"}, None, {}, None),
        ("DECIMAL(10, 2)", 1.5, None, {}, "1.50"),
        ("DECIMAL(10, 2)", "12", None, {}, None),  # no padding: no base64
        ("DECIMAL(10, 2)", "12", None, {"decimals": "string"}, "12.00"),
        ("DECIMAL(10, 2)", "AeJA", {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "4"}}, {}, "12.35"),
        ("DECIMAL(10, 2)", "1234", {"type": "string"}, {}, "1234.00"),
        ("DATE", 19000, None, {}, "2022-01-08"),
        ("DATE", 19000, {"type": "int32", "name": DATE}, {}, "2022-01-08"),
        ("DATE", 19000, {"type": "int32", "name": "io.debezium.time.Year"}, {}, None),
        ("DATE", "2022-01-08", None, {}, "2022-01-08"),
        ("TIMESTAMP", 1_000_000, None, {}, "1970-01-01T00:00:01+00:00"),
        ("TIMESTAMP", 1_000, None, {"timestamps": "millis"}, "1970-01-01T00:00:01+00:00"),
        ("TIMESTAMP", 1_000, {"type": "int64", "name": "io.debezium.time.Timestamp"}, {}, "1970-01-01T00:00:01+00:00"),
        ("TIMESTAMP", 1_000, {"type": "int64", "name": "io.debezium.time.MicroTime"}, {}, None),
        ("TIMESTAMP", "1970-01-01T00:00:01Z", {"type": "string"}, {}, "1970-01-01T00:00:01+00:00"),
        ("STRING", {"a": [1.0]}, None, {}, '{"a":[1.0]}'),
    ],
)
def test_a_value_means_what_its_schema_or_the_file_says(
    type_: str, node: Any, schema: dict[str, Any] | None, options: dict[str, str], shown: Any
) -> None:
    assert value(type_, node, schema, **options) == shown


@pytest.mark.parametrize(
    ("type_", "node"),
    [
        ("STRING", UNAVAILABLE),
        ("BINARY", base64.b64encode(UNAVAILABLE.encode()).decode()),
        ("ARRAY<STRING>", [UNAVAILABLE]),
        ("ARRAY<INT>", list(UNAVAILABLE.encode())),
        ("MAP<STRING, STRING>", {UNAVAILABLE: UNAVAILABLE}),
    ],
)
def test_a_value_that_was_not_sent_is_absent(type_: str, node: Any) -> None:
    of = pipeline(f"id BIGINT, v {type_}")
    found = read(of, {"op": "u", "after": {"id": 1, "v": node}})
    assert found is not None
    assert (found["absent"], found["row"]) == (["v"], {"id": 1, "v": None})
    other = read(of, {"op": "u", "after": {"id": 1, "v": None}})
    assert other is not None and other["absent"] == []


@pytest.mark.parametrize(
    ("envelope", "kind", "row", "old"),
    [
        ({"op": "u", "before": {"id": 1}, "after": {"id": 2}}, "upsert", {"id": 2}, {"id": 1}),
        ({"op": "u", "before": None, "after": {"id": 2}}, "upsert", {"id": 2}, None),
        ({"op": "d", "before": {"id": 1}}, "delete", {"id": 1}, None),
        ({"op": "d"}, "delete", {"id": None}, None),
        ({"op": "t"}, "truncate", {"id": None}, None),
        ({"op": "m"}, "none", {"id": None}, None),
        ({"op": "c", "after": {"id": 1}, "payload": {"op": "d", "before": {"id": 2}}}, "delete", {"id": 2}, None),
        ({"op": "c", "after": {"id": 1}, "payload": {"before": {"id": 2}}}, "upsert", {"id": 1}, None),
    ],
)
def test_an_envelope_is_a_change(envelope: Any, kind: str, row: Any, old: Any) -> None:
    found = read(pipeline("id BIGINT"), envelope)
    assert found is not None
    assert (found["kind"], found["row"], found.get("old")) == (kind, row, old)


@pytest.mark.parametrize("envelope", [{"op": "x"}, {"op": "c"}, {"op": "u", "after": 5}, {}, [], 5])
def test_what_is_no_envelope_is_not_read(envelope: Any) -> None:
    assert read(pipeline("id BIGINT"), envelope) is None


def test_positions_order_and_say_when_a_change_is_valid() -> None:
    change = {"order_by": ["source.file", "source.pos"], "valid_from": "source.ts_ms", "history": "scd2"}
    of = pipeline("id BIGINT", change)
    source = {"file": "binlog.1000000", "pos": 4, "ts_ms": 1500}
    found = read(of, {"op": "c", "after": {"id": 1}, "source": source})
    assert found is not None
    assert found["at"] == "1970-01-01T00:00:01.500000+00:00"
    file = found["position"]["source.file"]
    assert file > "binlog.999999" and file.endswith("1000000")


def test_a_key_is_bare_or_in_its_payload() -> None:
    reader = key_reader(pipeline("id DATE, v STRING", key="json"))
    assert reader is not None
    assert reader(b'{"id": 19000}') == {"id": "2022-01-08"}
    schema = {"fields": [{"field": "id", "type": "int32", "name": "io.debezium.time.Year"}]}
    assert reader(json.dumps({"schema": schema, "payload": {"id": 19000}}).encode()) == {"id": None}
    assert reader(b'{"id": 1, "payload": {"id": 2}}') == {"id": "1970-01-02"}
