"""A look at a pipeline's target: its columns, its newest rows, and what differs between two versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa

from include.lake.delta_tables import OpenedTable, open_table
from include.lake.file_rows import differing_rows, newest_rows
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.json_data import JsonObject, JsonValue
from include.settings import Settings

_TEXT_MAX = 200  # characters of a value that are shown
_KINDS = ("inserted", "updated", "deleted")


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
    names = _names(table)
    aged = [
        _positional(part, names, age=pa.array([n] * len(part), pa.int64()))
        for n, part in enumerate(newest_rows(table, rows))
    ]
    texts = ", ".join(_text(f"c{n}") for n in range(len(names)))
    found = (
        _database(newest=pa.concat_tables(aged))
        .execute(
            f'SELECT of.generation, of.batch_id, of.topic, of.partition, of."offset", of.deleted, {texts} FROM newest '
            f"ORDER BY age, of.generation DESC, of.batch_id DESC LIMIT {int(rows)}"
        )
        .fetchall()
    )
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
    database = _database(before=_positional(before, names), after=_positional(after, names))
    numbers = range(len(names))
    key = ", ".join(f"c{names.index(name)}" for name in _identity(names, pipeline))
    # In history a row is a change, and values that order it tell it apart.
    places = [f"c{names.index(name)}" for name in pipeline.placing_values if name in names]
    of_change = ", ".join([key, *places, "of.topic", "of.partition", 'of."offset"'])
    identity = f"row({of_change})" if pipeline.keeps_history else f"row({key})"
    shown, whole = ", ".join(_text(f"c{n}") for n in numbers), ", ".join(f"c{n}" for n in numbers)
    for side in ("before", "after"):
        database.execute(
            f"CREATE TABLE {side}_rows AS SELECT {identity} AS id, {shown}, row({whole}) AS whole FROM {side} "
            "WHERE NOT coalesce(of.deleted, false)"
        )
    texts = ", ".join(f"{side}.c{n} AS {side}{n}" for side in ("b", "a") for n in numbers)
    database.execute(
        "CREATE TABLE compared AS SELECT CASE WHEN b.id IS NULL THEN 'inserted' WHEN a.id IS NULL THEN 'deleted' "
        f"WHEN a.whole IS DISTINCT FROM b.whole THEN 'updated' END AS kind, {texts} "
        "FROM before_rows b FULL JOIN after_rows a ON a.id = b.id"
    )
    counted = dict(database.execute("SELECT kind, count(*) FROM compared GROUP BY kind").fetchall())
    return {
        "versions": list(versions),
        **{kind: counted.get(kind, 0) for kind in _KINDS},
        "columns": names,
        "examples": [example for kind in _KINDS for example in _examples(database, kind, len(names), rows)],
    }


def _identity(names: Sequence[str], pipeline: Pipeline) -> list[str]:
    """The table's key columns, as it writes them."""
    keys = {name.lower() for name in pipeline.change.keys}
    return [name for name in names if name.lower() in keys]


def _examples(database: duckdb.DuckDBPyConnection, kind: str, columns: int, rows: int) -> Iterator[JsonObject]:
    fields = ", ".join(f"{side}{n}" for side in ("b", "a") for n in range(columns))
    found = database.execute(f"SELECT {fields} FROM compared WHERE kind = ? LIMIT {int(rows)}", [kind]).fetchall()
    for row in found:
        before, after = row[:columns], row[columns:]
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


def _positional(table: pa.Table, names: Sequence[str], **more: pa.Array) -> pa.Table:
    """The columns `c0`, `c1` ... for these names (null where an older table lacks one), and `of`, the lineage. A user's
    own names could mean something in the SQL around them."""
    columns = [
        table.column(name) if name in table.column_names else pa.nulls(len(table), pa.string()) for name in names
    ]
    own = {f"c{n}": column for n, column in enumerate(columns)}
    return pa.table({**own, "of": table.column(LINEAGE), **more})


def _text(column: str) -> str:
    """SQL for a value as a text of bounded length."""
    return f"left({column}::VARCHAR, {_TEXT_MAX}) AS {column}"
