"""A look at a pipeline's target: its columns, its newest rows, and what differs between two versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa

from include.lake.delta_tables import OpenedTable, open_table
from include.lake.file_rows import differing_rows, newest_rows
from include.lake.sql import sql_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.json_data import JsonObject, JsonValue
from include.settings import Settings

_TEXT_MAX = 200  # characters of a value that are shown
_KINDS = ("inserted", "updated", "deleted")
_AGE = "_age"  # column: the place of a row's file, the newest first


def columns_of(settings: Settings, pipeline: Pipeline) -> JsonObject:
    """The target's version, and its columns: name, type, is_key. No version and no columns if there is no table yet.

    Raises:
        TableDamaged: see `open_table`.
    """
    table = open_table(Tables.of(settings, pipeline).target)
    if table is None:
        return {"version": None, "columns": []}
    return {"version": table.version(), "columns": list(_columns(table, pipeline))}


def newest(settings: Settings, pipeline: Pipeline, rows: int) -> JsonObject:
    """The target's version, columns (names), and its newest rows: values as text (null: null), and place (what wrote
    them, and the record that they come from). Empty if there is no table yet.

    Raises:
        TableDamaged: see `open_table`. TerminalError: see `newest_rows`.
    """
    table = open_table(Tables.of(settings, pipeline).target)
    if table is None:
        return {"version": None, "columns": [], "rows": []}
    aged = [
        part.append_column(_AGE, pa.array([n] * len(part), pa.int64()))
        for n, part in enumerate(newest_rows(table, rows))
    ]
    database = _database(newest=pa.concat_tables(aged))
    names = _names(table)
    found = database.execute(
        f"SELECT {LINEAGE}.generation, {LINEAGE}.batch_id, {LINEAGE}.topic, {LINEAGE}.partition, "
        f'{LINEAGE}."offset", {LINEAGE}.deleted, {_texts(names, "newest")} FROM newest '
        f"ORDER BY {_AGE}, {LINEAGE}.generation DESC, {LINEAGE}.batch_id DESC LIMIT {int(rows)}"
    ).fetchall()
    shown = [
        {"place": dict(zip(("generation", "batch_id", "topic", "partition", "offset", "deleted"), row, strict=False))}
        | {"values": row[6:]}
        for row in found
    ]
    return {"version": table.version(), "columns": names, "rows": shown}


class Versions(NamedTuple):
    before: int
    after: int


def compare(settings: Settings, pipeline: Pipeline, versions: Versions, rows: int) -> JsonObject:
    """What differs between two versions of the target, by key: inserted, updated, deleted (numbers of rows, as readers
    see them: a tombstone is no row), columns, and examples, at most `rows` of each kind: kind, before and after, values
    as text; before is null for an inserted row, after for a deleted one.

    Raises:
        TerminalError: see `differing_rows`. TableDamaged: a table or a data file is not readable.
    """
    before, after = differing_rows(Tables.of(settings, pipeline).target, *versions)
    names = [name for name in after.column_names if name != LINEAGE]
    database = _database(before=_padded(before, after.schema), after=after)
    keys = [*pipeline.change.keys]
    if pipeline.keeps_history:  # a row is a change
        identity = ", ".join([*map(sql_name, keys), f"{LINEAGE}.change_order"])
    else:
        identity = ", ".join(map(sql_name, keys))
    for side in ("before", "after"):
        database.execute(
            f"CREATE TABLE {side}_rows AS SELECT row({identity}) AS _id, {_texts(names, side)}, "
            f"row({', '.join(map(sql_name, names))}) AS _all FROM {side} WHERE NOT coalesce({LINEAGE}.deleted, false)"
        )
    database.execute(
        "CREATE TABLE compared AS SELECT CASE WHEN b._id IS NULL THEN 'inserted' WHEN a._id IS NULL THEN 'deleted' "
        "WHEN a._all IS DISTINCT FROM b._all THEN 'updated' END AS kind, b, a "
        "FROM before_rows b FULL JOIN after_rows a ON a._id = b._id"
    )
    counted = dict(database.execute("SELECT kind, count(*) FROM compared WHERE kind IS NOT NULL GROUP BY 1").fetchall())
    return {
        "versions": list(versions),
        **{kind: counted.get(kind, 0) for kind in _KINDS},
        "columns": names,
        "examples": [example for kind in _KINDS for example in _examples(database, kind, names, rows)],
    }


def _examples(database: duckdb.DuckDBPyConnection, kind: str, names: Sequence[str], rows: int) -> Iterator[JsonObject]:
    fields = ", ".join(f"{side}.{sql_name(name)}" for side in ("b", "a") for name in names)
    found = database.execute(f"SELECT {fields} FROM compared WHERE kind = ? LIMIT {int(rows)}", [kind]).fetchall()
    for row in found:
        before, after = row[: len(names)], row[len(names) :]
        yield {
            "kind": kind,
            "before": None if kind == "inserted" else before,
            "after": None if kind == "deleted" else after,
        }


def _columns(table: OpenedTable, pipeline: Pipeline) -> Iterator[JsonObject]:
    keys = {name.lower() for name in pipeline.change.keys}
    for field in json.loads(table.schema().to_json())["fields"]:
        if field["name"] != LINEAGE:
            yield {"name": field["name"], "type": _type(field["type"]), "is_key": field["name"].lower() in keys}


def _type(of: JsonValue) -> str:
    """A type of Delta's schema, as DDL writes it."""
    match of:
        case {"type": "array", "elementType": element}:
            return f"array<{_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_type(key)}, {_type(value)}>"
        case {"type": "struct", "fields": fields}:
            parts = (f"{field['name']}: {_type(field['type'])}" for field in fields)
            return f"struct<{', '.join(parts)}>"
        case _:
            return str(of)


def _names(table: OpenedTable) -> list[str]:
    return [field.name for field in table.schema().fields if field.name != LINEAGE]


def _database(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        database.register(name, table)
    return database


def _padded(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table of an older schema with the columns of a newer one."""
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _texts(names: Sequence[str], table: str) -> str:
    """SQL for the values as texts of bounded length."""
    return ", ".join(f"left({table}.{sql_name(name)}::VARCHAR, {_TEXT_MAX}) AS {sql_name(name)}" for name in names)
