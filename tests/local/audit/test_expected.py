"""What `audit --deep` computes from random change streams is what docs/semantics.md says: it agrees with the oracle
that the writers are compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any, cast

import duckdb
import pytest

from include.audit.audited_table import Audited, Reach
from include.audit.changes import TARGET, conditions_of, filter_of, make_changes
from include.audit.conditions import Conditions
from include.audit.expected_history import compare_history
from include.audit.expected_rows import compare_rows
from include.pipeline_file import Pipeline
from include.protocol.ranges import OffsetRange
from include.settings import Settings
from include.sources.duckdb_records import decoded, load
from include.sources.kafka_records import Record
from tests.support.change_streams import SHOWN, Change, Semantics, history, newest, stream

CASES = 60
ALL = Semantics(order=("seq",), patches=True, moves=True, track=("name", "note"))


def database_of(pipeline: Pipeline, records: Iterable[Record]) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    load(database, pipeline, [list(records)])
    made = f"SELECT * FROM ({decoded(pipeline, 'records')}) WHERE NOT _undecodable"
    asked = {**filter_of(pipeline), **conditions_of(pipeline)}
    conditions = Conditions(database, cast("Settings", None), pipeline)  # none of them needs Spark, and so a place
    make_changes(database, pipeline, conditions.answered(made, pipeline.columns, asked))
    return database


def as_record(change: Change) -> Record:
    key, value, topic, partition, offset, at = change.row()
    return Record(topic, partition, offset, at, key, value, None)


def audited(pipeline: Pipeline, is_history: bool, reach: Reach) -> Audited:
    route = None if is_history else TARGET
    return Audited(
        pipeline, "lake://silver/p", is_point=not is_history, is_history=is_history, route=route, reach=reach
    )


def empty_table(database: duckdb.DuckDBPyConnection, pipeline: Pipeline, at: str) -> None:
    """A table with the columns of both kinds."""
    columns = ", ".join(f"NULL::{'VARCHAR' if c.type == 'STRING' else 'INTEGER'} AS {c.name}" for c in pipeline.columns)
    order = ", ".join(f'"{o.name}" := NULL::{"TIMESTAMPTZ" if o.of == "kafka" else "INTEGER"}' for o in pipeline.order)
    order += ", _topic := NULL::VARCHAR, _partition := NULL::INTEGER, _offset := NULL::BIGINT"
    database.execute(
        f"CREATE TABLE target AS SELECT {columns}, NULL::{at} AS valid_from, NULL::{at} AS valid_to, "
        f"NULL::BOOLEAN AS is_current, struct_pack(generation := 1, batch_id := 0, topic := 't', "
        f'partition := 0, "offset" := 0::BIGINT, change_order := struct_pack({order}), '
        f"deleted := false, valid_at := NULL::{at}, absent := NULL::VARCHAR[]) AS _lakemark "
        "LIMIT 0"
    )


@pytest.mark.parametrize(
    "semantics",
    [
        Semantics(order=("seq",), track=()),
        Semantics(order=("kafka.timestamp",), track=("name",), by_tombstone=True),
        Semantics(order=("seq",), patches=True, track=()),
        ALL,
        Semantics(order=("seq", "kafka.timestamp"), patches=True, moves=True, track=("note",)),
    ],
    ids=str,
)
def test_i9_what_is_computed_agrees_with_the_oracle(semantics: Semantics) -> None:
    chance = Random(f"{semantics}")
    changes = [change for case in range(CASES) for change in stream(case, chance, semantics)]
    pipeline = semantics.pipeline()
    shuffled = chance.sample(changes, len(changes))
    database = database_of(pipeline, map(as_record, shuffled))
    at = "TIMESTAMPTZ" if semantics.order[0] == "kafka.timestamp" else "INTEGER"
    empty_table(database, pipeline, at)
    reach = Reach([OffsetRange("t", n, 0, 1000) for n in range(2 * CASES)])
    names = [column.name for column in pipeline.columns]
    shown = ", ".join(f"c{names.index(name)}" for name in SHOWN)

    tables = audited(pipeline, False, reach)
    tables.take(database, "target")
    compare_rows(database, tables)
    rows = database.execute(f"SELECT _keys.k0, _keys.k1, {shown} FROM expected WHERE NOT _deleted").fetchall()
    found = {(case, id_): dict(zip(SHOWN, values, strict=True)) for case, id_, *values in rows}
    assert found == newest(changes, semantics)

    tables = audited(pipeline, True, reach)
    tables.take(database, "target")
    compare_history(database, tables)
    partial = pipeline.partial_columns
    images = ", ".join(f"{'s' if name in partial else 'm'}.c{names.index(name)}" for name in SHOWN)
    rows = database.execute(
        f"SELECT _keys.k0, _keys.k1, s.valid_from, s.valid_to, s.is_current, {images} FROM matched m JOIN states s "
        "USING (_id) WHERE s.valid_from IS NOT NULL ORDER BY _order"
    ).fetchall()
    states: dict[Any, list] = defaultdict(list)
    for case, id_, since, until, current, *values in rows:
        states[case, id_].append((since, until, current, dict(zip(SHOWN, values, strict=True))))
    assert states == history(changes, semantics)
    assert set(database.execute("SELECT verdict FROM compared").fetchall()) == {("missing",)}
