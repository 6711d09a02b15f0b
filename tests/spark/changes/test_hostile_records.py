"""Records that no producer should send: each becomes the row that it says it is, or goes to the quarantine; none fails
an attempt. An oracle that shares no code with Lakemark says what is expected (`tests/hostile`).

`HOSTILE_SEED=...` runs a failed test's fresh seed once more.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.hostile import csv_oracle, debezium_oracle, json_oracle, oracle
from tests.hostile.generator import CsvRecords, DebeziumRecords, JsonRecords, Record
from tests.hostile.oracle import Row
from tests.hostile.types import FLAT, SCHEMA, Type, decimal
from tests.support.hostile import FRESH, SEEDS, a_pipeline, assert_same, decoded, differences


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", [None, "seconds", "millis", "micros", "nanos"])
def test_json(spark: SparkSession, tmp_path: Path, seed: str, unit: str | None) -> None:
    records = JsonRecords(f"{seed} {unit}", SCHEMA).records(1_000)
    pipeline = a_pipeline(SCHEMA, **({"timestamps": unit} if unit else {}))

    def expected(record: Record) -> Row:
        return oracle.completed(json_oracle.json_row(record.value, SCHEMA, unit), None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("key", ["json", "string"])
def test_kafkas_keys(spark: SparkSession, tmp_path: Path, seed: str, key: str) -> None:
    schema = {name: FLAT[name] for name in ("id", "seq", "name")}
    records = JsonRecords(f"{seed} {key}", schema, key=key).records(1_000)

    def expected(record: Record) -> Row:
        row = json_oracle.json_row(record.value, schema, None)
        return oracle.completed(row, json_oracle.of_key(record.key, key, schema["id"], "id", None), ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, a_pipeline(schema, key=key), records, tmp_path), expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", [None, "millis"])
def test_csv(spark: SparkSession, tmp_path: Path, seed: str, unit: str | None) -> None:
    records = CsvRecords(f"{seed} {unit}", FLAT).records(1_500)
    source = {"format": "csv", "csv": {"delimiter": ";"}, **({"timestamps": unit} if unit else {})}

    def expected(record: Record) -> Row:
        return oracle.completed(csv_oracle.csv_row(record.value, FLAT, unit), None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, a_pipeline(FLAT, **source), records, tmp_path), expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_string(spark: SparkSession, tmp_path: Path, seed: str) -> None:
    records = CsvRecords(seed, FLAT).records(1_500)
    pipeline = a_pipeline(
        {"name": Type("STRING")},
        {"keys": ["place"], "order_by": []},
        format="string",
        metadata={"place": "offset"},
    )

    def expected(record: Record) -> Row:
        return {"name": oracle.text_of(record.value)}

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
def test_debezium_json(spark: SparkSession, tmp_path: Path, seed: str, unit: str) -> None:
    records = DebeziumRecords(f"{seed} {unit}", FLAT).records(1_000)
    pipeline = a_pipeline(FLAT, format="debezium-json", debezium={"timestamps": unit})

    def expected(record: Record) -> Row | None:
        row = debezium_oracle.debezium_row(record.value, FLAT, unit)
        return row and oracle.completed(row, None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


def test_what_once_was_taken_for_another_decimal_or_key(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"id": Type("BIGINT"), "seq": Type("BIGINT"), "money": decimal(12, 2)}
    texts = ["12", "00", "9.9"]  # `12` is -41 in base64 without its padding
    records = [Record(None, f'{{"op": "c", "after": {{"id": 1, "money": "{text}"}}}}'.encode()) for text in texts]
    pipeline = a_pipeline(schema, {"order_by": []}, format="debezium-json")
    assert [row["reason"] for row in decoded(spark, pipeline, records, tmp_path)] == [
        f"column money is no DECIMAL(12, 2): {text}" for text in texts
    ]
    keys = [b"5", b"+5", b" 5", b"5\n", b"\x005"]
    rows = decoded(
        spark,
        a_pipeline(schema, key="string"),
        [Record(key, b'{"seq": 1}') for key in keys],
        tmp_path,
    )
    assert [row["row"]["id"] for row in rows] == [5, 5, None, None, None]


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        (Type("TINYINT"), '"x": 200'),  # was -56
        (Type("TINYINT"), '"x": -129'),
        (Type("STRUCT", fields=(("t", Type("TINYINT")),)), '"x": {"t": 255}'),
        (Type("FLOAT"), '"x": 3.4028235e38'),  # how Java writes its greatest float: was set aside
        (Type("FLOAT"), '"x": 3.4028236e38'),
        (Type("FLOAT"), '"x": -3.4028236e38'),
        (Type("TIMESTAMP"), '"x": "2024-06-01T12:00:00 BST"'),  # was 06:00 in UTC
        (Type("TIMESTAMP"), '"x": "2024-06-01T12:00:00 CST"'),
        (Type("TIMESTAMP"), '"x": "2024-03-31T02:30:00 Europe/Berlin"'),  # an hour that is none
        (Type("TIMESTAMP"), '"x": "2024-06-01T12:00:00+02:00"'),
        (Type("FLOAT"), '"x": "NaN"'),
        (Type("FLOAT"), '"x": "-Infinity"'),
    ],
)
def test_the_smallest_records_that_once_were_other_rows(
    spark: SparkSession, tmp_path: Path, type_: Type, fields: str
) -> None:
    schema = {"id": Type("BIGINT"), "seq": Type("BIGINT"), "x": type_}
    record = Record(None, f'{{"id": 1, "seq": 1, {fields}}}'.encode())
    [row] = decoded(spark, a_pipeline(schema), [record], tmp_path)
    assert_same(differences([record], [row], lambda record: json_oracle.json_row(record.value, schema, None)))


def test_a_number_is_kept_as_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """Where a STRING is declared. In Spark's own parser a number passes through a double."""
    schema = {"id": Type("BIGINT"), "name": Type("STRING")}
    values = ["0.12345678901234567890", "[1.50]", '{"a":[1E2,-0]}']
    records = [Record(None, f'{{"id": 1, "name": {value}}}'.encode()) for value in values]
    rows = decoded(spark, a_pipeline(schema, {"order_by": []}), records, tmp_path)
    assert [row["row"]["name"] for row in rows] == values


def test_a_decimal_is_what_is_written_or_set_aside_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own parser leaves commas out, and writes 1e2999999 out with all its digits: for hours."""
    fields: dict[str, str | None] = {
        '"wide": 12345678901234567890.5, "more": "1e1000"': "12345678901234567890.5",
        '"wide": 1111111111111111111111111111.9999999999, "more": "1e99999"': "1111111111111111111111111111.9999999999",
        '"wide": null, "more": "1e99999"': None,
        '"wide": "12.5", "more": "1,5"': "12.5",
        '"wide": 1.5e3, "more": "1,5"': "1500",
        '"wide": "1,5"': "none",
        '"wide": "1\\u00652999999"': "none",
        '"wide": "1e\\u0032999999"': "none",
        '"wide": "1e٢٩٩٩٩٩٩"': "none",
        '"wide": "' + "1" * 300_000 + '"': "none",
        '"wide": 123456789012345678901234567890.123456789012345, "more": "1,5"': "none",
        '"wide": 12345678901234567890.123456789012345': "12345678901234567890.1234567890",
        '"wide": 1.23456789012345678901e10': "12345678901.2345678901",
    }
    schema = {"id": Type("BIGINT"), "wide": decimal(38, 10)}
    records = [Record(None, f'{{"id": 1, {field}}}'.encode()) for field in fields]
    rows = decoded(spark, a_pipeline(schema, {"order_by": []}), records, tmp_path)
    found = ["none" if row["reason"] else row["row"]["wide"] for row in rows]
    assert found == [value if value in (None, "none") else Decimal(value) for value in fields.values()]


def test_debeziums_number_of_more_than_38_digits_or_with_an_exponent_is_rounded_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = ["1111111111111111111111111111.12345678901", "1.23456789012345678901e10"]
    records = [Record(None, f'{{"op": "c", "after": {{"id": 1, "wide": {text}}}}}'.encode()) for text in numbers]
    pipeline = a_pipeline({"id": Type("BIGINT"), "wide": decimal(38, 10)}, {"order_by": []}, format="debezium-json")
    for row, text in zip(decoded(spark, pipeline, records, tmp_path), numbers, strict=True):
        assert row["reason"] or row["row"]["wide"] == oracle.as_decimal(text, decimal(38, 10))


def test_a_line_with_broken_quotes_is_no_other_text(spark: SparkSession, tmp_path: Path) -> None:
    fields: dict[str, str | None] = {
        '1,"a""b"': 'a"b',
        '1,"a\\"b"': 'a"b',
        '1,"a\\\\"': "a\\",
        '1,"a\\b"': "a\\b",
        '1,"a\nb,"': "a\nb,",
        '1,a"b': 'a"b',
        "1,a\\b": "a\\b",
        '1,"cut': None,
        '1,"cut\\"': None,
        '1,"a"b': None,
        '1,"a" ': None,
        "1,a\nb": None,
        '"1",a': "a",
    }
    schema = {"id": Type("BIGINT"), "name": Type("STRING")}
    pipeline = a_pipeline(schema, {"order_by": []}, format="csv")
    rows = decoded(spark, pipeline, [Record(None, line.encode()) for line in fields], tmp_path)
    assert [row["row"]["name"] if row["reason"] is None else None for row in rows] == list(fields.values())


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(8))
def test_many_more(spark: SparkSession, tmp_path: Path, turn: int) -> None:
    """More than 20,000 records."""
    seed = f"{FRESH} {turn}"
    for unit in (None, "nanos"):
        test_json(spark, tmp_path, seed, unit)
    for key in ("json", "string"):
        test_kafkas_keys(spark, tmp_path, seed, key)
    test_csv(spark, tmp_path, seed, None)
    test_string(spark, tmp_path, seed)
    test_debezium_json(spark, tmp_path, seed, "micros")
