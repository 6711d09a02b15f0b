"""Computes a table of history from its changes, and compares every row, in DuckDB's SQL.

docs/semantics.md says what the table shows: every change is a row, and what it shows follows from all rows of its key.
Where Kafka no longer holds a change, the table's own row stands for it. So the states around it are compared, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from include.audit.audited_table import KEYED, ORDER, Audited
from include.audit.expected_rows import BEYOND, EQUAL, NOT_OURS, OTHER_VALUES
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import IS_CURRENT, LINEAGE, VALID_FROM, VALID_TO

OTHER_STATES = "other states"
_IN_ORDER = "(PARTITION BY _keys ORDER BY _order)"
_UNTIL_NOW = "(PARTITION BY _keys ORDER BY _order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"


def compare_history(database: duckdb.DuckDBPyConnection, audited: Audited) -> None:
    """Makes the table `compared`: key and verdict, for every row of `shown`, and for every change that has none."""
    database.execute(f"CREATE OR REPLACE TABLE matched AS {_matched(database, audited)}")
    database.execute(f"CREATE OR REPLACE TABLE states AS {_states(audited)}")
    named = ", ".join(f"m._keys.k{place}" for place in range(len(audited.pipeline.change.keys)))
    images = " AND ".join(["true", *(f"m.p{n} IS NOT DISTINCT FROM s.c{n}" for n in _partial(audited))])
    periods = " AND ".join(f"m.{n} IS NOT DISTINCT FROM s.{n}" for n in (VALID_FROM, VALID_TO, IS_CURRENT))
    database.execute(
        f"""CREATE OR REPLACE TABLE compared AS SELECT row({named})::VARCHAR AS key, CASE
            WHEN m._verdict NOT IN ('{EQUAL}', '{BEYOND}') THEN m._verdict
            WHEN NOT ({images}) THEN '{OTHER_VALUES}'
            WHEN NOT ({periods}) THEN '{OTHER_STATES}'
            ELSE m._verdict END AS verdict
        FROM matched m LEFT JOIN states s USING (_id)"""
    )


def _partial(audited: Audited) -> list[int]:
    partial = audited.pipeline.partial_columns
    return [place for place, column in enumerate(audited.pipeline.columns) if column.name in partial]


def _matched(database: duckdb.DuckDBPyConnection, audited: Audited) -> str:
    """SQL for all rows of the table and all changes, each with its verdict so far.

    Columns: `_id`, `_keys`, `_order`, `_verdict`; the change, from its record or from the table's row: cN, `_deleted`,
    `_absent`, `_valid_at`; and what the table shows: pN for partial columns, and the columns of periods.
    """
    lineage, reach, partial = f"t.{LINEAGE}", audited.reach, _partial(audited)
    same = [f"{lineage}.deleted = e._deleted"]
    same += [audited.same(place, "e") for place in audited.values if place not in partial]
    verdict = f"""CASE
        WHEN t._present IS NULL THEN 'missing'
        WHEN {audited.is_foreign} THEN 'foreign'
        WHEN t._doubles > 1 THEN 'double'
        WHEN {reach.gone} THEN '{BEYOND}'
        WHEN e._keys IS NULL AND NOT ({reach.replayed}) AND {audited.is_held(f"t.{ORDER}")} THEN '{NOT_OURS}'
        WHEN e._keys IS NULL THEN '{BEYOND}'
        WHEN coalesce({" AND ".join(same)}, false) THEN '{EQUAL}'
        WHEN {reach.replayed} THEN '{BEYOND}'
        ELSE '{OTHER_VALUES}' END"""
    columns = ", ".join([*_changes(audited), *(f"{audited.shown(place)} AS p{place}" for place in partial)])
    shown = ", ".join(f"t.{name}" for name in (VALID_FROM, VALID_TO, IS_CURRENT))
    return f"""
        WITH rows AS (
            SELECT *, true AS _present, count(*) OVER same AS _doubles, row_number() OVER same AS _nth
            FROM shown WINDOW same AS (PARTITION BY {KEYED}, {ORDER})
        ), judged AS (
            SELECT t, e, coalesce(t.{KEYED}, e._keys) AS _keys, coalesce(t.{ORDER}, e._order) AS _order, t._nth AS _nth,
                {verdict} AS _verdict
            FROM rows t FULL JOIN mine e ON t.{KEYED} = e._keys AND t.{ORDER} = e._order
        ), sided AS (
            SELECT *, e._keys IS NULL OR _verdict = '{BEYOND}' AS _own FROM judged
        )
        SELECT row_number() OVER () AS _id, _keys, _order, _verdict, _nth, {columns},
            {_absent(database, audited)} AS _absent, {shown},
            CASE WHEN _own THEN {lineage}.deleted ELSE e._deleted END AS _deleted,
            CASE WHEN _own THEN {_valid_at(database, audited)} ELSE e._valid_at END AS _valid_at
        FROM sided"""


def _valid_at(database: duckdb.DuckDBPyConnection, audited: Audited) -> str:
    """SQL for the time from which a row's change is valid: in the lineage, if no column has it, and in older tables."""
    own, at = "valid_at" in audited.lineage(database), audited.pipeline.valid_from
    found = [f"t.{LINEAGE}.valid_at"] if own else []
    found += [f"t.{sql_name(at.name)}"] if at.of == "column" else []
    return f"coalesce({', '.join(found)})"


def _changes(audited: Audited) -> Iterator[str]:
    """SQL for the columns of a change. A row from before a column was added does not have it."""
    for place, column in enumerate(audited.pipeline.columns):
        late = audited.reach.late.get(column.name.lower())
        own = f"_own OR (t._present AND {audited.shown(place)} IS NULL AND {late})" if late else "_own"
        yield f"CASE WHEN {own} THEN {audited.shown(place)} ELSE e.c{place} END AS c{place}"


def _absent(database: duckdb.DuckDBPyConnection, audited: Audited) -> str:
    """SQL for the names of the columns that a change leaves out. The table knows best what its rows were made from."""
    there = audited.lineage(database)
    told = f"coalesce(t.{LINEAGE}.absent, [])" if "absent" in there else "[]"
    late = audited.fields(database, "knows")
    names = {audited.pipeline.columns[place].name for place in _partial(audited)}
    unknown = (
        f"CASE WHEN NOT coalesce(t.{LINEAGE}.knows.{sql_name(name)}, false) THEN {sql_text(name)} END"
        for name in sorted(names)
        if name.lower() in late
    )
    of_row = f"list_concat({told}, [{', '.join(unknown)}])"
    return f"CASE WHEN t._present THEN {of_row} ELSE e._absent END"


def _states(audited: Audited) -> str:
    """SQL for what every row shows: `_id`, cN of partial columns, and the columns of periods."""
    names = [column.name for column in audited.pipeline.columns]
    partial = _partial(audited)
    images = []
    for place in range(len(names)):
        is_set = f"NOT coalesce(list_contains(_absent, {sql_text(names[place])}), false)"
        held = f"CASE WHEN {is_set} THEN {{'v': c{place}}} END"
        image = f"(last_value({held} IGNORE NULLS) OVER {_UNTIL_NOW}).v" if place in partial else f"c{place}"
        images.append(f"{image} AS c{place}")
    tracked = [names.index(name) for name in audited.pipeline.change.track_columns] or range(len(names))
    state = f"struct_pack({', '.join(f'c{place} := c{place}' for place in tracked)}, deleted := _deleted)"
    kept = f"_verdict NOT IN ('foreign', '{NOT_OURS}') AND coalesce(_nth, 1) = 1"
    own = ", ".join(["_id", *(f"c{place}" for place in partial)])
    return f"""
        WITH images AS (
            SELECT _id, _keys, _order, _deleted, _valid_at, {", ".join(images)} FROM matched WHERE {kept}
        ), begun AS (
            SELECT *, lag({state}) OVER {_IN_ORDER} IS DISTINCT FROM {state} AS _begins FROM images
        ), followed AS (
            SELECT *, lead({{'begins': _begins, 'at': _valid_at}}) OVER {_IN_ORDER} AS _next,
                last_value(CASE WHEN _begins THEN _valid_at END IGNORE NULLS) OVER {_UNTIL_NOW} AS _since
            FROM begun
        ), shown AS (
            SELECT *, NOT _deleted AND (_next IS NULL OR _next.begins) AS _shows FROM followed
        )
        SELECT {own}, CASE WHEN _shows THEN _since END AS {VALID_FROM},
            CASE WHEN _shows THEN _next.at END AS {VALID_TO}, _shows AND _next IS NULL AS {IS_CURRENT}
        FROM shown"""
