"""Computes a table with one row per key from its changes, and compares every row, in DuckDB's SQL.

docs/semantics.md says what the table shows: the newest change of every key wins. A column that changes may leave out is
a register of its own: it has the value of the newest change that sets it.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from include.audit.audited_table import KEYED, ORDER, Audited
from include.audit.changes import order_in
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import LINEAGE

OLDER, NOT_OURS, OTHER_VALUES = "older", "not from the source", "other values"
EQUAL, BEYOND = "equal", "beyond reach"
_WORST_FIRST = (OLDER, OTHER_VALUES, NOT_OURS, BEYOND)


def compare_rows(database: duckdb.DuckDBPyConnection, audited: Audited) -> None:
    """Makes the table `compared`: key and verdict, for every row of `shown`, and for every key that has none."""
    partial = _partial(audited)
    database.execute(f"CREATE OR REPLACE TABLE expected AS {_expected(audited, partial)}")
    registers = list(_registers(database, audited, partial))
    named = ", ".join(f"coalesce(t.{KEYED}, e._keys).k{n}" for n in range(len(audited.pipeline.change.keys)))
    verdicts = f"[{', '.join([_of_row(database, audited, partial), *registers])}]"
    cases = " ".join(f"WHEN list_contains(verdicts, '{verdict}') THEN '{verdict}'" for verdict in _WORST_FIRST)
    database.execute(
        f"""CREATE OR REPLACE TABLE compared AS SELECT key, CASE
            WHEN length(verdicts) = 1 OR is_final THEN verdicts[1] {cases} ELSE verdicts[1] END AS verdict
        FROM (
            SELECT row({named})::VARCHAR AS key, {verdicts} AS verdicts, coalesce(
                t._present IS NULL OR e._keys IS NULL OR {audited.is_foreign} OR t._doubles > 1, true
            ) AS is_final
            FROM (SELECT *, true AS _present, count(*) OVER (PARTITION BY {KEYED}) AS _doubles FROM shown) t
            FULL JOIN expected e ON t.{KEYED} = e._keys
        )"""
    )


def _partial(audited: Audited) -> list[int]:
    partial = audited.pipeline.partial_columns
    return [place for place, column in enumerate(audited.pipeline.columns) if column.name in partial]


def _expected(audited: Audited, partial: list[int]) -> str:
    """SQL for every key's row: `_keys`, `_order`, `_deleted`, `_forgotten` (its tombstone may have been removed); for a
    partial column its value `cN` and the order `aN` of the change that set it (null: none has), for others `cN`."""
    whole = [place for place in audited.values if place not in partial]
    inner = ", ".join([*(f"c{place} := c{place}" for place in whole), "deleted := _deleted"])
    parts = [f"arg_max(struct_pack({inner}), _order) AS _newest", f"bool_or({audited.is_purged('_order')}) AS _any"]
    for place in partial:
        is_set = f"NOT coalesce(list_contains(_absent, {sql_text(audited.pipeline.columns[place].name)}), false)"
        parts.append(f"arg_max(struct_pack(v := c{place}), _order) FILTER ({is_set}) AS _v{place}")
        parts.append(f"max(_order) FILTER ({is_set}) AS _a{place}")
    newest = f"SELECT _keys, max(_order) AS _order, {', '.join(parts)} FROM mine GROUP BY _keys"
    if audited.pipeline.change.truncates != "apply":
        columns = [*(f"_newest.c{place} AS c{place}" for place in whole)]
        columns += [f"_v{place}.v AS c{place}, _a{place} AS a{place}" for place in partial]
        flags = f"_newest.deleted AS _deleted, {audited.is_purged('_order')} AS _forgotten, NULL AS _truncated"
        return f"SELECT _keys, _order, {', '.join([*columns, flags])} FROM ({newest})"
    # A truncate is a change without keys. For every key it is a delete at the truncate's place; also for one that is
    # only in the table: another pipeline has read it, from which this one was cloned.
    no_keys = " AND ".join(f"_keys.k{place} IS NULL" for place in range(len(audited.pipeline.change.keys)))
    gone = f"(NOT ({no_keys}) AND coalesce(_order < _truncated, _order IS NULL))"
    newest += f" UNION ALL BY NAME SELECT DISTINCT {KEYED} AS _keys FROM shown ANTI JOIN mine ON {KEYED} = _keys"
    ordering = {order.name: f"_truncated.o{n}" for n, order in enumerate(audited.pipeline.order)}
    names = [column.name for column in audited.pipeline.columns]
    columns = [
        f"CASE WHEN NOT {gone} THEN _newest.c{place} ELSE {ordering.get(names[place], 'NULL')} END AS c{place}"
        for place in whole
    ]
    for place in partial:
        is_older = f"({gone} OR coalesce(_a{place} < _truncated, false))"
        columns.append(f"CASE WHEN NOT {is_older} THEN _v{place}.v END AS c{place}")
        columns.append(f"CASE WHEN {is_older} THEN _truncated ELSE _a{place} END AS a{place}")
    flags = (
        f"{gone} OR _newest.deleted AS _deleted, CASE WHEN {gone} THEN _any ELSE {audited.is_purged('_order')} END "
        "AS _forgotten, _truncated"
    )
    return (
        f"SELECT _keys, CASE WHEN {gone} THEN _truncated ELSE _order END AS _order, {', '.join([*columns, flags])} "
        f"FROM ({newest}), (SELECT max(_order) FILTER ({no_keys}) AS _truncated FROM mine) "
        "WHERE coalesce(_order, _truncated) IS NOT NULL"
    )


def _of_row(database: duckdb.DuckDBPyConnection, audited: Audited, partial: list[int]) -> str:
    """SQL for the verdict on a row, without its partial columns.

    A column that was partial once may hold an older value than the newest record, so it is not compared in such rows.
    """
    reach, lineage = audited.reach, f"t.{LINEAGE}"
    once = audited.fields(database, "column_order")
    parts = [f"{lineage}.deleted = e._deleted"]
    for place in (place for place in audited.values if place not in partial):
        name, same = audited.pipeline.columns[place].name, audited.same(place, "e")
        kept = f"{lineage}.column_order.{sql_name(name)} IS NOT NULL"
        parts.append(f"({same} OR {kept})" if name.lower() in once else same)
    same = f"coalesce({' AND '.join(parts)}, false)"
    order, held = f"t.{ORDER}", audited.is_held(f"t.{ORDER}")
    return f"""CASE
        WHEN t._present IS NULL AND e._deleted AND e._forgotten THEN 'purged'
        WHEN t._present IS NULL THEN 'missing'
        WHEN {audited.is_foreign} THEN 'foreign'
        WHEN t._doubles > 1 THEN 'double'
        WHEN {order} < e._order AND e._deleted AND e._forgotten THEN '{BEYOND}'
        WHEN {order} < e._order THEN '{OLDER}'
        WHEN {reach.gone} THEN '{BEYOND}'
        WHEN {order} = e._order AND {same} THEN '{EQUAL}'
        WHEN {reach.replayed} THEN '{BEYOND}'
        WHEN {order} = e._order THEN '{OTHER_VALUES}'
        WHEN {held} THEN '{NOT_OURS}'
        ELSE '{BEYOND}' END"""


def _registers(database: duckdb.DuckDBPyConnection, audited: Audited, partial: list[int]) -> Iterator[str]:
    """SQL for the verdict on each partial column of a row whose key has changes.

    The row says which change set the column (`column_order`: null where it is the row's own, nulls within where none
    has). Rows from before a column was kept apart count as changes that did not hold it.
    """
    reach, lineage, own = audited.reach, f"t.{LINEAGE}", f"t.{ORDER}"
    orders, late = audited.fields(database, "column_order"), audited.fields(database, "knows")
    for place in partial:
        name = audited.pipeline.columns[place].name
        same, at = audited.same(place, "e"), f"e.a{place}"
        if name.lower() not in orders:  # no batch has landed since the file keeps what is absent
            yield f"CASE WHEN coalesce({same}, false) THEN '{EQUAL}' ELSE '{BEYOND}' END"
            continue
        told = f"{lineage}.column_order.{sql_name(name)}"
        is_late = name.lower() in late
        knows = f"coalesce({lineage}.knows.{sql_name(name)}, false)" if is_late else "true"
        set_at = (
            f"CASE WHEN {told} IS NULL THEN CASE WHEN {knows} THEN {own} END "
            f"WHEN {told}._offset IS NOT NULL THEN {order_in(audited.pipeline, told)} END"
        )
        # A truncate that comes late does not reach into a row that is newer.
        is_cut = audited.pipeline.change.truncates == "apply"
        spared = f"coalesce(({set_at}) < e._truncated, false)" if is_cut else "false"
        spared = "true" if is_late else spared
        yield f"""CASE
            WHEN {reach.gone} THEN '{BEYOND}'
            WHEN ({set_at}) IS NOT DISTINCT FROM {at} AND {same} THEN '{EQUAL}'
            WHEN coalesce(({set_at}) < {at}, {at} IS NOT NULL) AND NOT {spared} THEN '{OLDER}'
            WHEN {reach.replayed} OR {spared} OR ({audited.is_made_anew(f"({set_at})")}) THEN '{BEYOND}'
            WHEN ({set_at}) IS NOT DISTINCT FROM {at} THEN '{OTHER_VALUES}'
            WHEN {audited.is_held(f"({set_at})")} THEN '{NOT_OURS}'
            ELSE '{BEYOND}' END"""
