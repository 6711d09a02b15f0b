"""`source.filter` and `change.delete_when`, asked of a record."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.support.decoding import a_pipeline, decoded


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
