"""Records of JSON: what is one, what its values become, what is set aside and what is rescued."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.tables.merging import prepared
from tests.support.decoding import a_pipeline, decoded, decoded_rows, read


def test_a_record_is_one_json_object_and_nothing_else(spark: SparkSession) -> None:
    none, more = "not a JSON object", "more than one JSON object"
    too_much = "JSON that is nested too deeply, or a number, a name or a text too long"
    cases: dict[str | bytes, str | None] = {
        '{"id": 1, "name": "Ann\\u00e9 \\ud83d\\ude00"} \n': None,
        '{"id": 1}{"id": 2}': more,
        '{"id": 1} x': more,
        '{"id": 1}]': more,
        '{"id": 1, "id": 2}': "a field stands twice in a JSON object",
        '{"id": 1, "other": [{"a": 1, "\\u0061": 2}]}': "a field stands twice in a JSON object",
        b'{"id": 1, "name": "\xff"}': "not UTF-8",
        b'{"id": 1, "name": "\xed\xa0\x80"}': "not UTF-8",
        '{"id": 1, "name": "\\ud800"}': "half of a surrogate pair in a JSON text",
        '{"id": 1, "name": "\\\\ud800"}': None,
        '{"id": 1, "other": 1e400}': "a JSON number beyond the range of a double",
        '{"id": 1, "other": [1e+00000001, 1E-0, 1e40e]}': none,
        '{"id": 1, "other": [1e+00000001, 1E-0, 0e000, 1e-00400]}': None,
        '{"id": 1, "other": 1e-401}': "a JSON number beyond the range of a double",
        '{"id": 1, "other": 1e-999999999999}': "a JSON number beyond the range of a double",
        '{"id": 1, "name": ' + "[" * 2000 + "]" * 2000 + "}": too_much,
        "{'id': 1}": none,
        '{"id": NaN}': none,
        "[]": none,
        "null": none,
        "": none,
        '{"id": 1': none,
        '{"id": 1}\0': none,
        '{"id": "x"}': "column id is no BIGINT",
    }
    found = read(spark, "id BIGINT, name STRING", list(cases))
    assert {text: reason for text, (reason, _) in zip(cases, found, strict=True)} == cases


@pytest.mark.parametrize(
    ("type_", "cases"),
    [
        (
            "TIMESTAMP",
            {
                '"2024-01-05T10:00:00+02:00"': "2024-01-05T08:00:00+00:00",
                '"2024-1-5"': "2024-01-05T00:00:00+00:00",
                '"9999-12-31T23:59:59.999999Z"': "9999-12-31T23:59:59.999999+00:00",
                '"0001-01-01"': "0001-01-01T00:00:00+00:00",
                '"9999-12-31T23:59:59-05:00"': None,
                '"0000-12-31"': None,
                '"12024-01-01"': None,
                '"10:20:30"': None,
                '"2024-01"': None,
                '"2024-13-01"': None,
                r'"2024-1-1\u0001\u0002"': None,
                '"now"': None,
            },
        ),
        (
            "TIMESTAMP_NTZ",
            {
                '"2024-01-05T10:00:00+02:00"': "2024-01-05T08:00:00+00:00",
                '"2024-01-05"': "2024-01-05T00:00:00+00:00",
            },
        ),
        (
            "DATE",
            {
                '"2024-01-05"': "2024-01-05",
                '"2024-01-05T00:00:00.000Z"': "2024-01-05",
                '"2024-01-05T10:00:00Z"': None,
                '"20240105"': None,
                '"19000"': None,
            },
        ),
        ("DECIMAL(12, 2)", {'"1e30000000"': None, '"1e5"': "100000.00", "12.345": "12.35", '"1e-30000000"': None}),
        ("FLOAT", {"1.5": 1.5, "1e39": None, '"Infinity"': float("inf")}),
        ("DOUBLE", {"1e308": 1e308, '"-Infinity"': float("-inf")}),
        ("ARRAY<DATE>", {'["2024-01-05", null]': [date(2024, 1, 5), None], '["2024-01-05", "x"]': None}),
        ("STRUCT<d: DATE, n: BIGINT>", {'{"d": "2024-01-05"}': {"d": date(2024, 1, 5), "n": None}, '{"d": "x"}': None}),
        ("MAP<STRING, DATE>", {'{"a": "2024-01-05"}': {"a": date(2024, 1, 5)}, '{"a": "x"}': None}),
    ],
)
def test_a_value_becomes_what_it_says_or_the_record_is_set_aside(
    spark: SparkSession, type_: str, cases: dict[str, Any]
) -> None:
    found = read(spark, f"id BIGINT, v {type_}", [f'{{"id": 1, "v": {value}}}' for value in cases])
    part = {"ARRAY<DATE>": "v[] is no DATE", "MAP<STRING, DATE>": "v[] is no DATE"}
    part["STRUCT<d: DATE, n: BIGINT>"] = "v.d is no DATE"
    lost = f"column {part.get(type_, f'v is no {type_}')}"
    assert found == [(None if value is not None else lost, value) for value in cases.values()]


def test_a_value_of_another_type_within_a_column_is_rescued_whole(spark: SparkSession) -> None:
    text = '{"id": 1, "v": {"n": "x", "m": 5}, "more": [1.50, 12345678901234567890.5]}'
    pipeline = a_pipeline("id BIGINT, v STRUCT<n: INT, m: INT>", {"on_schema_change": "rescue"})
    [row] = decoded(spark, pipeline, [(None, text.encode())])
    assert row["row"]["v"] is None
    rescued = json.loads(row["row"]["_rescued"])
    assert rescued == {"v": '{"n":"x","m":5}', "more": "[1.50,12345678901234567890.5]"}


def test_i11_what_decides_is_not_rescued(spark: SparkSession) -> None:
    """An old key that is lost would leave its row for good; a delete that is lost would be a row."""
    schema = "id BIGINT, old BIGINT, gone BOOLEAN, room STRUCT<n: INT>, note INT"
    change = {"previous_keys": {"id": "old"}, "delete_when": "gone", "on_schema_change": "rescue"}
    pipeline = a_pipeline(schema, change, filter="room.n > 0")
    cases = {
        '"old": "x"': "column old is no BIGINT",
        '"gone": "true"': "column gone is no BOOLEAN",
        '"room": {"n": "5"}': "column room is no STRUCT<n: INT>",
        '"note": "x", "room": {"n": 5}': None,
    }
    rows = decoded(spark, pipeline, [(None, f'{{"id": 1, {fields}}}'.encode()) for fields in cases])
    assert [row["reason"] for row in rows] == list(cases.values())
    assert json.loads(rows[-1]["row"]["_rescued"]) == {"note": "x"}


def test_a_number_is_a_moment_only_where_the_file_says_what_it_counts(spark: SparkSession) -> None:
    at, texts = "2023-11-14T22:13:20+00:00", ['{"id": 1, "at": 1700000000}', '{"id": 1, "at": 1700000000000}']
    said = "column at is a number, and source.timestamps does not say what it counts"
    assert read(spark, "id BIGINT, at TIMESTAMP", texts) == [(said, None)] * 2
    seconds = read(spark, "id BIGINT, at TIMESTAMP", texts, timestamps="seconds")
    assert seconds == [(None, at), ("column at is no TIMESTAMP", None)]
    assert read(spark, "id BIGINT, at TIMESTAMP", texts, timestamps="millis")[1] == (None, at)
    [nanos] = read(spark, "id BIGINT, at TIMESTAMP", ['{"id": 1, "at": -1}'], timestamps="nanos")
    assert nanos == (None, "1969-12-31T23:59:59.999999+00:00")


def test_a_name_with_a_dot_orders(spark: SparkSession) -> None:
    pipeline = a_pipeline("id BIGINT, `meta.lsn` BIGINT, meta STRUCT<lsn: BIGINT>", {"order_by": ["meta.lsn"]})
    changes = [(None, {"id": 1, "meta.lsn": seq, "meta": {"lsn": 9 - seq}}) for seq in (5, 4)]
    judged = decoded_rows(spark, pipeline, changes)
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 0, 2),), {"t": "id"}, "cluster")
    [row] = prepared(dispositions(judged, pipeline), TableSpec.of_target(pipeline), batch).collect()
    assert row["meta.lsn"] == 5
