"""What records become: Debezium's as its connectors write them, keys and tombstones, Kafka's own fields as columns."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.decode import decode
from tests.conftest import world_in
from tests.support.records import RECORDS
from tests.support.world import World

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_NUMBERS = {"debezium-json": {"debezium": {"decimals": "string"}}}
_CASES = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("debezium").glob("*.json")}


@pytest.fixture(scope="module")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world: World = world_in(tmp_path_factory.mktemp("formats"), stack)
    with world.session() as session:
        yield session


def a_pipeline(schema: str, change: dict[str, Any], **source: Any) -> Pipeline:
    given = {"bootstrap_servers": "k", "topics": ["t"], "schema": schema, **source}
    return Pipeline.model_validate(
        {"name": "p", "source": given, "change": {"keys": ["id"], **change}, "target": {"table": "lake://silver/p"}}
    )


def decoded(spark: SparkSession, pipeline: Pipeline, records: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Keys and values (bytes, None, or what becomes JSON) as `decode` has them, in order."""

    def raw(part: Any) -> bytes | None:
        return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()

    rows = [(raw(key), raw(value), "t", 0, n, _NOW) for n, (key, value) in enumerate(records)]
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 0, len(rows)),), {"t": "id"}, "cluster")
    found = decode(spark.createDataFrame(rows, RECORDS), pipeline, batch).orderBy("offset").collect()
    return [row.asDict(recursive=True) for row in found]


def shown(value: Any) -> Any:
    """A value, as the files have it."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case _:
            return value


@pytest.mark.parametrize("connector", _CASES)
def test_debeziums_records_as_its_connectors_write_them(spark: SparkSession, connector: str) -> None:
    given = _CASES[connector]
    pipeline = a_pipeline(
        given["schema"],
        {"order_by": given["order_by"]},
        format="debezium-json",
        debezium=given["debezium"],
        key="json",
    )
    found = decoded(spark, pipeline, [(case["key"], case["value"]) for case in given["records"]])
    for case, row in zip(given["records"], found, strict=True):
        lineage = row["row"].pop("_lakemark")
        values = {name: shown(value) for name, value in row["row"].items()}
        told = (row["reason"], row["filtered"], lineage["deleted"])
        about = case["about"], row
        if "problem" in case:
            assert row["reason"] == case["problem"], about
            continue
        assert told == (None, case.get("filtered", False), "deleted" in case), about
        assert (row["absent"] or []) == case.get("absent", []), about
        if "row" in case:
            assert values == case["row"], about
        if "deleted" in case:
            assert values["id"] == case["deleted"], about
        if "order" in case:
            assert {name: lineage["change_order"][name] for name in case["order"]} == case["order"], about


def test_an_unavailable_value_is_set_aside_where_the_file_says_so(spark: SparkSession) -> None:
    given = _CASES["postgresql"]
    toast = [case for case in given["records"] if "TOAST" in case["about"]]
    change = {"order_by": given["order_by"], "absent": "nulls"}
    pipeline = a_pipeline(given["schema"], change, format="debezium-json", debezium=given["debezium"], key="json")
    [row] = decoded(spark, pipeline, [(case["key"], case["value"]) for case in toast])
    assert row["reason"] == "column note is not in the change (unavailable value)"


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
    assert lineage["change_order"]["kafka.timestamp"].astimezone(UTC) == _NOW
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
    assert sent_at.astimezone(UTC) == _NOW
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


def read(spark: SparkSession, schema: str, texts: list[str | bytes], **source: Any) -> list[tuple[str | None, Any]]:
    """Why each record is set aside, or what its columns beside `id` are (one: it alone)."""
    pipeline = a_pipeline(schema, {}, **source)
    raw = [(None, text if isinstance(text, bytes) else text.encode()) for text in texts]
    found: list[tuple[str | None, Any]] = []
    for row in decoded(spark, pipeline, raw):
        values = [shown(value) for name, value in row["row"].items() if name not in ("id", "_lakemark")]
        found.append((row["reason"], None if row["reason"] else values[0] if len(values) == 1 else values))
    return found


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


def test_a_key_may_be_named_payload(spark: SparkSession) -> None:
    pipeline = a_pipeline("payload BIGINT, name STRING", {"keys": ["payload"]}, key="json")
    [row] = decoded(spark, pipeline, [(b'{"payload": 7}', {"name": "n"})])
    assert row["row"]["payload"] == 7


def test_a_number_is_a_moment_only_where_the_file_says_what_it_counts(spark: SparkSession) -> None:
    at, texts = "2023-11-14T22:13:20+00:00", ['{"id": 1, "at": 1700000000}', '{"id": 1, "at": 1700000000000}']
    said = "column at is a number, and source.timestamps does not say what it counts"
    assert read(spark, "id BIGINT, at TIMESTAMP", texts) == [(said, None)] * 2
    seconds = read(spark, "id BIGINT, at TIMESTAMP", texts, timestamps="seconds")
    assert seconds == [(None, at), ("column at is no TIMESTAMP", None)]
    assert read(spark, "id BIGINT, at TIMESTAMP", texts, timestamps="millis")[1] == (None, at)
    [nanos] = read(spark, "id BIGINT, at TIMESTAMP", ['{"id": 1, "at": -1}'], timestamps="nanos")
    assert nanos == (None, "1969-12-31T23:59:59.999999+00:00")


def test_fields_of_csv_are_as_strict(spark: SparkSession) -> None:
    undecodable = "not decodable with the declared schema"
    lines: dict[str | bytes, str | None] = {
        "1,2024-01-01,1.5,2e3": None,
        "1,,,": None,
        "1,10:20:30,1,1": "column at is no TIMESTAMP",
        "1,2024-01-01,1e999999999,1": "column amount is no DECIMAL(12,2)",
        "1,2024-01-01,1,1e400": "column x is no DOUBLE",
        "1,2024-01-01,1,12d": "column x is no DOUBLE",
        "1,2024-01-01,1,2\n2,2024-01-01,1,2": undecodable,
        b"1,\xff,1,2": undecodable,
        "": undecodable,
        ",".join("1" * 30_000): undecodable,
        "," * 200_000: undecodable,
    }
    found = read(spark, "id BIGINT, at TIMESTAMP, amount DECIMAL(12,2), x DOUBLE", list(lines), format="csv")
    assert {line: reason for line, (reason, _) in zip(lines, found, strict=True)} == lines


@pytest.mark.parametrize("format_", ["json", "csv", "debezium-json"])
def test_i9_keys_that_are_not_exactly_what_is_declared_do_not_become_one(spark: SparkSession, format_: str) -> None:
    """Rounded, or cut to microseconds, two keys would be one, and one row would take the other's place."""
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


def test_a_decimal_whose_scale_is_none_is_no_decimal(spark: SparkSession) -> None:
    scales: list[Any] = [2, "3", 1.5, 2147483648, None]
    pipeline = of_debezium("id BIGINT, v DECIMAL(12, 2)")
    images = [{"id": 1, "v": {"scale": scale, "value": "AQ=="}} for scale in scales]
    rows = decoded(spark, pipeline, [(None, {"op": "c", "after": image}) for image in images])
    assert [row["row"]["v"] for row in rows] == [Decimal("0.01"), *[None] * 4]
    assert all(row["reason"].startswith("column v is no DECIMAL") for row in rows[1:])


def test_a_keys_schema_that_cannot_be_read_is_not_passed_over(spark: SparkSession) -> None:
    key = {"schema": {"fields": [{"field": "id", "parameters": ["x"]}]}, "payload": {"id": 1700000000000}}
    pipeline = of_debezium("id TIMESTAMP, v STRING", key="json")
    [row] = decoded(spark, pipeline, [(key, {"op": "d"})])
    assert row["reason"] == "null in a key column (id)"


def test_i11_an_old_key_of_which_a_part_is_unknown_moves_nobody_else(spark: SparkSession) -> None:
    pipeline = of_debezium("a INT, b INT, v STRING", {"keys": ["a", "b"]})
    said = "in `before`: a key has changed, and it does not hold all of them"
    after = {"a": 2, "b": 5}
    befores = {
        "none": None,
        "partly": {"a": 1, "b": None},
        "same": {"a": 2},
        "other": {"v": "x"},
        "all": {"a": 1, "b": 4},
    }
    rows = decoded(spark, pipeline, [(None, {"op": "u", "before": b, "after": after}) for b in befores.values()])
    assert [row["reason"] for row in rows] == [None, said, None, None, None]
    assert [row["moved_from"] for row in rows if row["reason"] is None] == [None, None, None, {"a": 1, "b": 4}]


def test_control_characters_are_not_passed_over_in_a_short_moment(spark: SparkSession) -> None:
    [(reason, _)] = read(spark, "id BIGINT, at TIMESTAMP", [r'{"id": 1, "at": "2024-1-1\u0001\u0002"}'])
    assert reason == "column at is no TIMESTAMP"


def test_a_name_with_a_dot_orders(spark: SparkSession) -> None:
    pipeline = a_pipeline("id BIGINT, `meta.lsn` BIGINT, meta STRUCT<lsn: BIGINT>", {"order_by": ["meta.lsn"]})
    [row] = decoded(spark, pipeline, [(None, {"id": 1, "meta.lsn": 5, "meta": {"lsn": 9}})])
    assert row["row"]["_lakemark"]["change_order"]["meta.lsn"] == 5


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


def test_a_key_that_is_no_text_is_none(spark: SparkSession) -> None:
    pipeline = a_pipeline("id STRING, name STRING", {}, key="string")
    rows = decoded(spark, pipeline, [(b"\xff", {"name": "n"}), (b"a", {"name": "n"})])
    assert [(row["reason"], row["row"]["id"]) for row in rows] == [("null in a key column (id)", None), (None, "a")]
    pipeline = a_pipeline("id BIGINT, name STRING", {}, key="json")
    rows = decoded(spark, pipeline, [(key, {"name": "n"}) for key in (b'{"id": 1}{"id": 2}', b'{"id": 1}')])
    assert [row["row"]["id"] for row in rows] == [None, 1]


def test_i8_what_is_null_is_not_what_it_was_for_the_record_before(spark: SparkSession) -> None:
    """Spark hands a function of a catalog the last value of a CASE that is null."""
    found = read(spark, "id BIGINT, name STRING", ["1,a", "", "2,b", "\n", "3,c"] * 3, format="csv")
    unread = ("not decodable with the declared schema", None)
    assert found == [(None, "a"), unread, (None, "b"), unread, (None, "c")] * 3


def test_keys_that_are_no_text_do_not_become_one(spark: SparkSession) -> None:
    """By the character that stands for what is none."""
    pipeline = a_pipeline("name STRING", {"keys": ["raw_key"]}, metadata={"raw_key": "key"})
    keys = [b"\xff", b"\xfe", b"\xef\xbf\xbd"]
    rows = decoded(spark, pipeline, [(key, {"name": "n"}) for key in keys])
    assert [row["reason"] for row in rows] == [*["null in a key column (raw_key)"] * 2, None]


def test_a_long_text_and_a_regular_expression_do_not_end_the_server(spark: SparkSession) -> None:
    pipeline = a_pipeline("id BIGINT, name STRING", {}, filter="name rlike '^([a-z0-9]+[._-]?)+$'")
    rows = decoded(spark, pipeline, [(None, {"id": 1, "name": "a." * 400_000}), (None, {"id": 2, "name": "!"})])
    assert [(row["reason"], row["filtered"]) for row in rows] == [(None, False), (None, True)]


def test_a_condition_that_cannot_be_asked_sets_the_record_aside(spark: SparkSession) -> None:
    schema = "id BIGINT, a INT, b INT, t STRING"
    given = [
        {"id": 1, "a": 4, "b": 2, "t": "1"},
        {"id": 2, "a": 4, "b": 0, "t": "1"},
        {"id": 3, "a": 1, "b": 2, "t": "x"},
    ]
    pipeline = a_pipeline(schema, {"delete_when": "a / b > 5"}, filter="a / b > 1 AND b > -1 OR CAST(t AS INT) = 7")
    rows = decoded(spark, pipeline, [(None, value) for value in given])
    failed = "source.filter fails on this record"
    assert [row["reason"] for row in rows] == [None, failed, failed]
    pipeline = a_pipeline(schema, {"delete_when": "a / b > 1"})
    rows = decoded(spark, pipeline, [(None, value) for value in given])
    assert [row["reason"] for row in rows] == [None, "change.delete_when fails on this record", None]
    assert [row["row"]["_lakemark"]["deleted"] for row in rows] == [True, False, False]


def test_a_delete_that_holds_a_key_only_is_not_filtered(spark: SparkSession) -> None:
    pipeline = a_pipeline(
        "id BIGINT, seq BIGINT, region STRING, op STRING",
        {"delete_when": "op = 'd'", "order_by": ["seq"]},
        filter="region = 'EU' AND region IS NOT NULL",
    )
    given = [
        {"id": 1, "seq": 1, "op": "d"},
        {"id": 1, "seq": 1, "op": "d", "region": "US"},
        {"id": 1, "seq": 1, "op": "u"},
        {"id": 1, "seq": 1, "op": "u", "region": "EU"},
    ]
    rows = decoded(spark, pipeline, [(None, value) for value in given])
    assert [row["filtered"] for row in rows] == [False, True, True, False]


def of_debezium(schema: str, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    return a_pipeline(schema, change or {}, **{"format": "debezium-json", **source})


def with_fields(image: dict[str, Any], **fields: dict[str, Any]) -> dict[str, Any]:
    """An envelope with its row's schema."""
    row = {"field": "after", "type": "struct", "fields": [{"field": name, **of} for name, of in fields.items()]}
    return {"schema": {"type": "struct", "fields": [row]}, "payload": {"op": "c", "after": image}}


_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."


@pytest.mark.parametrize(
    ("type_", "raw", "fields", "expected"),
    [
        ("DECIMAL(12, 2)", "1234", None, "-26588.24"),  # base64
        (
            "DECIMAL(12, 2)",
            "AQ==",
            {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "1"}},
            "0.10",
        ),
        ("DECIMAL(12, 2)", "1234", {"type": "string"}, "1234.00"),
        ("DATE", 19000, None, "2022-01-08"),
        ("DATE", 19000, {"type": "int32", "name": f"{_TIME}Year"}, "lost"),
        ("TIMESTAMP", 1700000000000000, None, "2023-11-14T22:13:20+00:00"),
        ("TIMESTAMP", 1700000000000, {"type": "int64", "name": f"{_TIME}Timestamp"}, "2023-11-14T22:13:20+00:00"),
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


def test_an_update_whose_old_key_cannot_be_read_is_set_aside(spark: SparkSession) -> None:
    after, said = {"id": 2, "k": 19000}, "in `before`: "
    befores: list[tuple[Any, str | None]] = [
        ({"id": "1x", "k": 19000}, f"{said}column id is no BIGINT"),
        ({"id": 1.5, "k": 19000}, f"{said}column id is no BIGINT"),
        ({"id": 1, "k": "x"}, f"{said}column k is no DATE: x"),
        (5, f"{said}not a JSON object"),
        ("x", f"{said}not a JSON object"),
        ({"id": 1, "k": 19000, "v": "lost, but no key"}, None),
        ({"id": None, "v": 1}, None),
        (None, None),
    ]
    records = [(None, {"op": "u", "before": before, "after": after}) for before, _ in befores]
    rows = decoded(spark, of_debezium("id BIGINT, k DATE, v INT", {"keys": ["id", "k"]}), records)
    assert [row["reason"] for row in rows] == [reason for _, reason in befores]
    assert rows[5]["moved_from"] == {"id": 1, "k": date(2022, 1, 8)}


def test_a_delete_is_judged_by_its_keys_and_what_orders_it(spark: SparkSession) -> None:
    schema = "id BIGINT, seq BIGINT, d DECIMAL(12, 2), s STRUCT<a: INT>, n INT, t TIMESTAMP"
    unavailable = "__debezium_unavailable_value"
    befores: list[tuple[Any, str | None]] = [
        *(({"id": 1, "seq": 1, name: unavailable}, None) for name in ("d", "s", "n", "t")),
        ({"id": 1, "seq": "x"}, "column seq is no BIGINT"),
        ({"id": "x", "seq": 1}, "column id is no BIGINT"),
        ({"id": "x", "seq": 1, "n": "x"}, "column id is no BIGINT"),
        (5, "not a JSON object"),
    ]
    records = [(None, {"op": "d", "before": before}) for before, _ in befores]
    rows = decoded(spark, of_debezium(schema, {"order_by": ["seq"]}), records)
    assert [row["reason"] for row in rows] == [reason for _, reason in befores]
    assert all(row["row"]["_lakemark"]["deleted"] and row["row"]["id"] == 1 for row in rows[:4])


def test_an_envelope_or_a_key_is_bare_or_in_payload_and_never_of_both(spark: SparkSession) -> None:
    inner = {"id": 2, "v": "inner"}
    values = [
        {"op": "c", "after": {"id": 1}, "payload": {"op": "d", "before": inner}},
        {"op": "d", "before": {"id": 1}, "payload": {"after": inner}},
        {"op": "c", "after": {"id": 1}, "payload": {"op": "c"}},
    ]
    rows = decoded(spark, of_debezium("id BIGINT, v STRING"), [(None, value) for value in values])
    found = [(row["reason"], row["row"]["id"], row["row"]["_lakemark"]["deleted"]) for row in rows]
    assert found == [(None, 2, True), (None, 1, True), ("the envelope has no row in `after`", None, False)]
    keys = [{"id": 1, "payload": {"id": 5, "k": 6}}, {"payload": {"id": 5, "k": 6}}, {"id": "x", "payload": {"id": 5}}]
    for format_, value in (("json", {"v": "n"}), ("debezium-json", {"op": "d"})):
        pipeline = a_pipeline("id BIGINT, k BIGINT, v STRING", {"keys": ["id", "k"]}, format=format_, key="json")
        rows = decoded(spark, pipeline, [(key, value) for key in keys])
        assert [(row["row"]["id"], row["row"]["k"]) for row in rows] == [(1, None), (5, 6), (None, None)]


@pytest.mark.parametrize("format_", ["json", "debezium-json"])
def test_a_key_that_is_none_is_not_that_of_the_record_before(spark: SparkSession, format_: str) -> None:
    decimal_ = {"field": "id", "type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "1"}}
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
    decimal_ = {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "2"}}
    cases: list[tuple[str, Any, dict[str, Any], str | None]] = [
        ("d", "1234", {"type": "string"}, "1234.00"),
        ("d", "AQ==", decimal_, "0.01"),
        ("d", "AQ==", {"type": "bytes"}, None),
        ("d", 12.5, {"type": "double"}, "12.50"),
        *(("t", 19723, {"type": "int32", "name": f"{prefix}Date"}, None) for prefix in (_TIME, _CONNECT)),
        *(("t", 36000000, {"type": "int64", "name": f"{_TIME}{name}"}, None) for name in ("MicroTime", "Time", "Year")),
        ("t", 1700000000000000, {"type": "int64", "name": f"{_TIME}MicroTimestamp"}, at),
        ("t", 1700000000000, {"type": "int64", "name": f"{_CONNECT}Timestamp"}, at),
        ("t", 1700000000000, {"type": "int64"}, at),
        ("t", "2023-11-14T22:13:20Z", {"type": "string", "name": f"{_TIME}ZonedTimestamp"}, at),
        ("t", "20240101", {"type": "string"}, None),
        *(("b", 19723, {"type": "int32", "name": f"{prefix}Date"}, day) for prefix in (_TIME, _CONNECT)),
        *(("b", 2024, {"type": "int32", "name": f"{_TIME}{name}"}, None) for name in ("Year", "Time", "Timestamp")),
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


def test_i9_files_of_mysql_order_by_their_numbers(spark: SparkSession) -> None:
    names = [
        f"binlog.{number}" for number in ("000001", "999998", "999999", "1000000", "1000001", "9999999", "10000000")
    ]
    pipeline = of_debezium("id BIGINT", {"order_by": ["source.file"]})
    rows = decoded(spark, pipeline, [(None, {"op": "c", "after": {"id": 1}, "source": {"file": n}}) for n in names])
    places = [row["row"]["_lakemark"]["change_order"]["source.file"] for row in rows]
    assert places == sorted(set(places))
    assert places[:3] == names[:3]  # as tables hold them


def test_transactions_of_mysql_do_not_order_by_their_names() -> None:
    with pytest.raises(ValueError, match=r"a column of source\.schema or a position"):
        of_debezium("id BIGINT", {"order_by": ["source.gtid"]})
