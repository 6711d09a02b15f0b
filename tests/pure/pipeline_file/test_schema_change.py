"""Declared columns against a table's: what is added, what is refused, and what the refusal shows."""

from __future__ import annotations

import pytest

from include.pipeline_file.schema_change import Added, columns_to_add, of_delta, verify_keys, verify_order
from include.pipeline_file.schema_ddl import Column, canonical, parse_ddl, type_at
from include.protocol.errors import SchemaChanged

TABLE = {"id": "BIGINT", "name": "STRING"}

ANEW = "make it anew"


@pytest.mark.parametrize(
    ("ddl", "delta", "expected"),
    [
        ("integer", "integer", "INT"),
        ("LONG", "long", "BIGINT"),
        ("dec", "decimal(10,0)", "DECIMAL(10,0)"),
        ("DECIMAL(12)", "decimal(12,0)", "DECIMAL(12,0)"),
        ("Numeric( 12 , 2 )", "decimal(12,2)", "DECIMAL(12,2)"),
        ("TIMESTAMP_LTZ", "timestamp", "TIMESTAMP"),
        ("TIMESTAMP_NTZ", "timestamp_ntz", "TIMESTAMP_NTZ"),
        ("array< int >", {"type": "array", "elementType": "integer", "containsNull": True}, "ARRAY<INT>"),
        (
            "MAP<STRING, DECIMAL(3,1)>",
            {"type": "map", "keyType": "string", "valueType": "decimal(3,1)", "valueContainsNull": True},
            "MAP<STRING,DECIMAL(3,1)>",
        ),
        (
            "STRUCT<a: INT, `b c`: STRUCT<d BYTE>>",
            {
                "type": "struct",
                "fields": [
                    {"name": "a", "type": "integer"},
                    {"name": "b c", "type": {"type": "struct", "fields": [{"name": "d", "type": "byte"}]}},
                ],
            },
            "STRUCT<a:INT,`b c`:STRUCT<d:TINYINT>>",
        ),
    ],
)
def test_a_type_is_written_one_way(ddl: str, delta: object, expected: str) -> None:
    assert (canonical(ddl), of_delta(delta)) == (expected, expected)


def test_new_columns_are_added() -> None:
    declared = parse_ddl("id LONG, name STRING, at TIMESTAMP")
    assert columns_to_add(ANEW, "t", declared, TABLE, "add_columns") == (Added(("at",), "TIMESTAMP"),)
    assert columns_to_add(ANEW, "t", declared[:2], TABLE, "fail") == ()


def test_a_column_that_is_declared_no_longer_stays() -> None:
    assert columns_to_add(ANEW, "t", parse_ddl("id LONG"), TABLE, "add_columns") == ()


@pytest.mark.parametrize(
    ("ddl", "policy", "shown"),
    [
        ("id INT, name STRING", "add_columns", ["column id", "BIGINT", "INT", ANEW]),
        ("id BIGINT, full_name STRING", "add_columns", ["columns name", "full_name", "new name"]),
        ("id BIGINT, Name STRING, at DATE", "add_columns", ["column Name", "the column name", "spell it name", ANEW]),
        ("id BIGINT, name STRING, at DATE", "fail", ["at DATE", "on_schema_change: add_columns"]),
    ],
)
def test_what_may_mean_something_else_is_refused_with_old_new_and_choices(ddl: str, policy: str, shown: list) -> None:
    with pytest.raises(SchemaChanged) as refused:
        columns_to_add(ANEW, "lake://silver/t", parse_ddl(ddl), TABLE, policy)
    for text in shown:
        assert text in str(refused.value)


ORDER = "STRUCT<seq: BIGINT, `kafka.timestamp`: TIMESTAMP>"
BASE = f"offset: BIGINT, change_order: {ORDER}, deleted: BOOLEAN"


def grown(there: str, wanted: str, *more: Column) -> tuple[Added, ...]:
    declared = [*parse_ddl("id BIGINT, name STRING"), *more, Column("_lakemark", f"STRUCT<{wanted}>")]
    found = {**TABLE, "_lakemark": canonical(f"STRUCT<{there}>")}
    return columns_to_add(ANEW, "t", declared, found, "add_columns")


@pytest.mark.parametrize(
    ("there", "wanted", "paths"),
    [
        ("", f"column_order: STRUCT<name: {ORDER}>", ["column_order"]),  # all changes were whole rows
        ("", "absent: ARRAY<STRING>", ["absent"]),
        ("generation: INT, topic: STRING", "topic: STRING, generation: INT", []),  # in another order
        (f"column_order: STRUCT<Name: {ORDER}>", f"column_order: STRUCT<name: {ORDER}>", []),
        (
            f"column_order: STRUCT<name: {ORDER}>",
            f"column_order: STRUCT<more: {ORDER}, name: {ORDER}>, knows: STRUCT<more: BOOLEAN>",
            ["column_order.more", "knows"],
        ),
        ("knows: STRUCT<name: BOOLEAN>", "knows: STRUCT<more: BOOLEAN>", ["knows.more"]),
        (f"column_order: STRUCT<name: {ORDER}>, knows: STRUCT<name: BOOLEAN>", "", []),  # what is there stays
    ],
)
def test_i9_the_lineage_gets_a_place_for_a_column_that_changes_may_leave_out(
    there: str, wanted: str, paths: list[str]
) -> None:
    added = grown(", ".join(filter(None, (BASE, there))), ", ".join(filter(None, (BASE, wanted))))
    assert [".".join(column.path) for column in added] == [f"_lakemark.{path}" for path in paths]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (BASE, BASE.replace(ORDER, "STRUCT<seq: BIGINT>")),  # another order_by
        (BASE.replace(ORDER, "STRUCT<seq: BIGINT>"), BASE),
        (BASE, f"{BASE}, valid_at: BIGINT"),  # history, and a table of one row per key
        (f"{BASE}, valid_at: BIGINT", BASE),
        (f"{BASE}, absent: STRING", f"{BASE}, absent: ARRAY<STRING>"),
        (f"{BASE}, column_order: STRUCT<name: STRUCT<seq: INT>>", f"{BASE}, column_order: STRUCT<name: {ORDER}>"),
    ],
)
def test_i9_another_order_or_kind_of_table_is_refused(there: str, wanted: str) -> None:
    with pytest.raises(SchemaChanged, match=rf"column _lakemark.*{ANEW}"):
        grown(there, wanted)


def test_a_column_that_is_refused_is_shown_with_its_place_in_the_lineage() -> None:
    wanted = f"{BASE}, column_order: STRUCT<`a b`: {ORDER}>"
    declared = [*parse_ddl("id BIGINT, name STRING, `a b` INT"), Column("_lakemark", f"STRUCT<{wanted}>")]
    found = {**TABLE, "_lakemark": canonical(f"STRUCT<{BASE}, column_order: STRUCT<name: {ORDER}>>")}
    with pytest.raises(SchemaChanged, match=r"`a b` INT, _lakemark.column_order.`a b` STRUCT<seq:BIGINT"):
        columns_to_add(ANEW, "t", declared, found, "fail")


def test_a_field_of_a_struct_has_its_type() -> None:
    columns = parse_ddl("id INT, meta STRUCT<lsn: BIGINT, at: STRUCT<ms: LONG>>")
    assert [type_at(columns, path) for path in ("id", "meta.lsn", "meta.at.ms", "meta.no", "no")] == [
        "INT",
        "BIGINT",
        "LONG",
        None,
        None,
    ]


def test_i9_rows_that_are_known_by_other_columns_are_refused() -> None:
    """With fewer keys, a change would match several rows of the table. This is found before anything lands."""
    verify_keys(ANEW, "t", ["id", "name"], None)  # of an earlier Lakemark, which did not say
    verify_keys(ANEW, "t", ["id", "name"], '["name", "id"]')
    for declared in (["id"], ["id", "name", "at"], ["name", "at"]):
        with pytest.raises(SchemaChanged, match=ANEW):
            verify_keys(ANEW, "t", declared, '["id", "name"]')


def test_i9_rows_that_are_ordered_by_something_else_are_refused() -> None:
    """Where a column says the order, no type tells one order from another."""
    verify_order(ANEW, "t", ["seq"], None)  # of an earlier Lakemark: its lineage says it
    verify_order(ANEW, "t", ["seq", "meta.lsn"], '["seq", "meta.lsn"]')
    for declared in ([], ["at"], ["meta.lsn", "seq"]):
        with pytest.raises(SchemaChanged, match=rf"change.order_by.*seq, meta.lsn.*{ANEW}"):
            verify_order(ANEW, "t", declared, '["seq", "meta.lsn"]')
