"""Lines of CSV, and plain texts."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import SparkSession

from tests.support.decoding import a_pipeline, decoded, read, values


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


def test_i8_what_is_null_is_not_what_it_was_for_the_record_before(spark: SparkSession) -> None:
    """Spark hands a function of a catalog the last value of a CASE that is null."""
    found = read(spark, "id BIGINT, name STRING", ["1,a", "", "2,b", "\n", "3,c"] * 3, format="csv")
    unread = ("not decodable with the declared schema", None)
    assert found == [(None, "a"), unread, (None, "b"), unread, (None, "c")] * 3


def test_lines_of_csv(spark: SparkSession) -> None:
    pipeline = a_pipeline("id BIGINT, name STRING, at TIMESTAMP", format="csv", csv={"delimiter": ";", "null": "-"})
    lines = ['1;"Anne; the first";2024-02-29T12:34:56Z\n', "2;-;-", "3", "x;y;z", "4;a;b;c", "5;Bo;2024-02-30"]
    rows = decoded(spark, pipeline, [(None, line.encode()) for line in lines] + [(None, None)])
    at = datetime(2024, 2, 29, 12, 34, 56)
    assert [values(row) for row in rows[:2]] == [(1, "Anne; the first", at), (2, None, None)]
    unread = "not decodable with the declared schema"
    no_time = "column at is no TIMESTAMP"
    no_number = "column id is no BIGINT"
    assert [row["reason"] for row in rows] == [None, None, unread, no_number, unread, no_time, "null value"]


def test_plain_texts_with_kafkas_key(spark: SparkSession) -> None:
    keys = {"place": "offset", "shard": "partition"}
    pipeline = a_pipeline("text STRING", {"keys": list(keys)}, format="string", metadata=keys)
    rows = decoded(spark, pipeline, [(None, b"a line"), (None, b"\xff\xfe"), (None, None)])
    assert values(rows[0]) == ("a line", 0, 0)
    assert [row["reason"] for row in rows] == [None, "not decodable with the declared schema", "null value"]
