"""Debezium's JSON as its connectors write it: envelopes, keys, updates of a key, deletes, positions."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.decoding import a_pipeline, decoded, of_debezium, shown

_CASES = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("debezium").glob("*.json")}


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
