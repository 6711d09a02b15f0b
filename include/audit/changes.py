"""Makes changes from decoded records, in DuckDB's SQL: what docs/semantics.md says about filters, deletes, keys that
change and routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from include.audit.report import NotRecomputed
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import LINEAGE, OrderField, Pipeline
from include.pipeline_file.debezium import INSTANTS
from include.protocol.ranges import OffsetRange
from include.sources.duckdb_records import duckdb_type

PLACE = ("_topic", "_partition", "_offset")
# Columns of conditions' answers; TAKES goes before a route's place.
WANTED, SAYS, TAKES = f"{LINEAGE}_wanted", f"{LINEAGE}_says", f"{LINEAGE}_takes_"
ALL_TABLES, TARGET = -1, -2  # as a route; others are places in the file's list
_DELETES = "('delete', 'truncate', 'tombstone')"


def make_changes(database: duckdb.DuckDBPyConnection, pipeline: Pipeline, made: str) -> None:
    """Makes the table `changes`: one row for every change, and one for every old key that a change deletes.

    Columns: c0, c1 ... are the target's columns in order (null in a delete, except the keys and what orders it);
    `_order` a struct that orders the changes; `_deleted`; `_absent`, names of columns that it leaves out; `_valid_at`,
    from when it is valid; `_route`, the route that takes it.

    Args:
        made: a query with the columns of `duckdb_records.decoded`, without undecodable records; after a transform, with
            its columns in the place of the source's. And with a column for every condition (`conditions_of`).

    Raises:
        NotRecomputed: DuckDB cannot compute the changes.
    """
    judged = f"SELECT *, {_bare(pipeline)} AS _bare, {_deleted(pipeline)} AS _deleted FROM ({made}) d"
    judged = f"SELECT *, {_kept(pipeline)} AS _kept, {_route(pipeline)} AS _route FROM ({judged}) d"
    names = [column.name for column in pipeline.columns]
    order = f"{order_struct(pipeline, dict(_order_values(pipeline)))} AS _order"
    valid_at = f"{_valid_at(pipeline)} AS _valid_at"
    always = {*pipeline.change.keys, *pipeline.placing_values}
    columns = (
        f"{name if n in always else f'CASE WHEN NOT _deleted THEN {name} END'} AS c{place}"
        for place, (n, name) in enumerate((name, sql_name(name)) for name in names)
    )
    # A delete leaves out nothing: it sets all columns to null.
    own = (
        f"SELECT {', '.join(columns)}, {order}, _deleted, CASE WHEN NOT _deleted THEN _absent END AS _absent, "
        f"{valid_at}, _route FROM judged WHERE _kept"
    )
    parts = [own]
    if old := _old_keys(pipeline):
        kept = {**{name: sql_name(name) for name in pipeline.placing_values}, **old}
        gone = (f"{kept.get(name, 'NULL')} AS c{place}" for place, name in enumerate(names))
        differs = " OR ".join(f"{value} <> {sql_name(name)}" for name, value in old.items())
        parts.append(
            f"SELECT {', '.join(gone)}, {order}, true AS _deleted, NULL AS _absent, {valid_at}, "
            f"{ALL_TABLES} AS _route FROM judged WHERE _kind IN ('upsert', 'delete') AND coalesce({differs}, false)"
        )
    try:
        database.execute(f"CREATE TABLE changes AS WITH judged AS MATERIALIZED ({judged}) {' UNION ALL '.join(parts)}")
    except duckdb.Error as error:
        raise NotRecomputed(f"DuckDB cannot compute its changes: {str(error).splitlines()[0]}") from error


def filter_of(pipeline: Pipeline) -> dict[str, str]:
    """`source.filter`, which leaves a record in, by the name of its column."""
    return {WANTED: pipeline.source.filter or "true"}


def conditions_of(pipeline: Pipeline) -> dict[str, str]:
    """The conditions about the target's columns, by the names of their columns."""
    takes = {f"{TAKES}{n}": route.when for n, route in enumerate(pipeline.target.routes) if route.when}
    return {SAYS: pipeline.change.delete_when or "false", **takes}


def order_struct(pipeline: Pipeline, values: dict[str, str]) -> str:
    """SQL for the struct that orders changes: the first of two fields that differ decides.

    Args:
        values: SQL by the names of the order's fields, and of PLACE.
    """
    types = {order.name: duckdb_type(order.type) for order in pipeline.order}
    types |= dict(zip(PLACE, ("VARCHAR", "INTEGER", "BIGINT"), strict=True))
    fields = (f"{sql_name(name)} := CAST({values[of]} AS {types[of]})" for of, name in _order_names(pipeline))
    return f"struct_pack({', '.join(fields)})"


def is_for(route: int) -> str:
    """SQL condition: a table gets a change."""
    return f"_route IN ({route}, {ALL_TABLES})"


def within(ranges: Iterable[OffsetRange], topic: str, partition: str, offset: str) -> str:
    """SQL condition: a place is in one of the ranges."""
    parts = (
        f"({topic} = {sql_text(r.topic)} AND {partition} = {r.partition} AND {offset} >= {r.start_offset} "
        f"AND {offset} < {r.end_offset})"
        for r in ranges
    )
    return f"({' OR '.join(parts) or 'false'})"


def order_in(pipeline: Pipeline, struct: str) -> str:
    """SQL for the same struct, from one of a table's row that has all of its fields."""
    names = [order.name for order in pipeline.order]
    return order_struct(pipeline, {name: f"{struct}.{sql_name(name)}" for name in (*names, *PLACE)})


def row_order(pipeline: Pipeline, lineage: Mapping[str, Any]) -> str:  # DuckDB's types
    """SQL for the same struct of a table's row `t`: what orders changes is in columns and in the lineage, or, in rows
    of older tables, in `change_order`.

    Args:
        lineage: DuckDB's types of the fields of the lineage.
    """
    told = lineage.get("change_order")
    held = {name.lower() for name, _ in told.children} if told is not None else set()
    values = {order.name: f"t.{sql_name(order.name)}" for order in pipeline.order if order.of == "column"}
    values |= {name: f"t.{LINEAGE}.{sql_name(name[1:])}" for name in PLACE}
    names = [*(order.name for order in pipeline.order), *PLACE]
    whole = {name: f"t.{LINEAGE}.change_order.{sql_name(name)}" for name in names if name.lower() in held}
    found = {name: [value for value in (whole.get(name), values.get(name)) if value] for name in names}
    return order_struct(pipeline, {name: f"coalesce({', '.join(paths) or 'NULL'})" for name, paths in found.items()})


def is_none(pipeline: Pipeline) -> str:
    """SQL condition: a record changes no row."""
    kinds = ["'none'"]
    kinds += [] if pipeline.change.truncates == "apply" else ["'truncate'"]
    kinds += ["'tombstone'"] if pipeline.tombstones == "ignore" else []
    return f"_kind IN ({', '.join(kinds)})"


def _order_names(pipeline: Pipeline) -> Sequence[tuple[str, str]]:
    """The names of the order's fields, each with its name in the struct."""
    own = [(order.name, f"o{place}") for place, order in enumerate(pipeline.order)]
    return [*own, *((name, name[1:]) for name in PLACE)]


def _order_values(pipeline: Pipeline) -> Iterable[tuple[str, str]]:
    for order in pipeline.order:
        yield order.name, _value(pipeline, order)
    yield from ((name, name) for name in PLACE)


def _value(pipeline: Pipeline, order: OrderField) -> str:
    if order.of == "field" and pipeline.transform is not None:
        return ".".join(map(sql_name, order.name.split(".")))
    return sql_name(order.name)


def _valid_at(pipeline: Pipeline) -> str:
    if not pipeline.keeps_history:
        return "NULL"
    order = pipeline.valid_from
    return "_at" if order.of == "position" and order.name in INSTANTS else _value(pipeline, order)


def _bare(pipeline: Pipeline) -> str:
    """A delete that holds only its key."""
    others = " AND ".join(f"{sql_name(name)} IS NULL" for name in pipeline.beyond_deletes) or "true"
    return f"(_kind IN {_DELETES} OR ({SAYS} AND {others}))"


def _deleted(pipeline: Pipeline) -> str:
    tombstones = ", 'tombstone'" if pipeline.tombstones == "delete" else ""
    return f"(_kind IN ('delete', 'truncate'{tombstones}) OR {SAYS})"


def _kept(pipeline: Pipeline) -> str:
    """Whether a record is a change. A transform's rows have been filtered before it."""
    wanted = "true" if pipeline.transform is not None else WANTED
    return f"(NOT {is_none(pipeline)} AND (_bare OR {wanted}))"


def _route(pipeline: Pipeline) -> str:
    if not pipeline.target.routes:
        return str(TARGET)
    takes = (
        f"{TAKES}{place}" if route.when else f"_topic IN ({', '.join(map(sql_text, route.topics))})"
        for place, route in enumerate(pipeline.target.routes)
    )
    cases = " ".join(f"WHEN {take} THEN {place}" for place, take in enumerate(takes))
    return f"CASE WHEN _bare THEN {ALL_TABLES} {cases} ELSE {TARGET} END"


def _old_keys(pipeline: Pipeline) -> dict[str, str]:
    """SQL for the key that the row had before, by column; none if keys do not change."""
    keys, named = pipeline.change.keys, pipeline.change.previous_keys
    before = {key: sql_name(column) for key, column in named.items()}
    if not named and pipeline.moves_keys:
        columns = {column.name for column in pipeline.source.value_columns}
        before = {key: f"_old.{sql_name(key)}" for key in keys if key in columns}
    if not before:
        return {}
    return {key: f"coalesce({before[key]}, {sql_name(key)})" if key in before else sql_name(key) for key in keys}
