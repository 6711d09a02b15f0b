"""Runs a pipeline's SQL transform in DuckDB, with the reference tables as they were when each batch was planned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from include.audit.changes import WANTED, is_none, within
from include.audit.reach import Applied, held_by_kafka
from include.audit.report import NotRecomputed
from include.audit.spark_sql import translated
from include.lake.delta_tables import all_rows, open_table
from include.lake.sql import sql_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import DECIMALS, WHOLE, Column, word_of
from include.pipeline_file.tables import table_uri
from include.pipeline_file.transform_file import read_transform
from include.protocol.batch import BatchKey, Pin
from include.protocol.errors import LakemarkError
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange
from include.settings import Settings
from include.sources.duckdb_records import duckdb_type

Pins = tuple[tuple[str, Pin], ...]  # versions of the reference tables, by name
_OWN = ("_topic", "_partition", "_offset", "_timestamp", "_kind", "_absent", "_old", "_at", "_tombstone")
_ROOM = "transformed"  # schema of the database, so that no reference's name meets a table of the audit


@dataclass(frozen=True)
class Pinned:
    """The batches of a pipeline by the versions of the reference tables that they were computed with."""

    ranges: Mapping[Pins, Sequence[OffsetRange]]  # of all batches whose versions can still be read
    unknown: frozenset[BatchKey] = field(default_factory=frozenset)  # the other batches

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline, applied: Iterable[Applied], source: SourceExtent) -> Pinned:
        assert pipeline.transform is not None, "the caller has checked it"
        references = pipeline.transform.references
        found: dict[Pins, list[OffsetRange]] = {}
        unknown: set[BatchKey] = set()
        readable: dict[tuple[str, Pin], bool] = {}
        for batch, ranges in applied:
            pins = tuple(sorted((name, batch.pins[name]) for name in references if name in batch.pins))
            for name, pin in pins:
                if (name, pin) not in readable:
                    readable[name, pin] = _is_readable(settings, references[name], pin)
            if len(pins) == len(references) and all(readable[pin] for pin in pins):
                found.setdefault(pins, []).extend(ranges)
            else:
                unknown.add(batch.key)
        held = {pins: held_by_kafka(ranges, source) for pins, ranges in found.items()}
        return cls(held, frozenset(unknown))


def verify_sql(file: str) -> None:
    """Raises NotRecomputed if a transform's file is no SQL."""
    if not file.endswith(".sql"):
        raise NotRecomputed(f"transform.file {file} is Python, which only Spark can run")


def transformed(
    database: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, decoded: str, pinned: Pinned
) -> str:
    """A query with what the transform makes of decoded records, and with the records that bypass it.

    Args:
        decoded: a query with the columns of `duckdb_records.decoded` and WANTED, without undecodable records.

    Raises:
        NotRecomputed: the transform cannot be computed here.
    """
    assert pipeline.transform is not None, "the caller has checked it"
    what = f"transform.file {pipeline.transform.file}"
    statement = translated(read_transform(settings, pipeline), what, _types(settings, pipeline))
    columns = ", ".join(sql_name(column.name) for column in pipeline.source.columns)
    order = [*pipeline.order, *([pipeline.valid_from] if pipeline.keeps_history else [])]
    own = [*_OWN, *dict.fromkeys(field.name for field in order if field.of in ("kafka", "position"))]
    packed = ", ".join(f"{sql_name(name)} := {sql_name(name)}" for name in own)
    if not pinned.ranges:
        raise NotRecomputed(f"no version of the tables in transform.references that {what} was run with can be read")
    database.execute(f"CREATE SCHEMA {_ROOM}; CREATE TABLE {_ROOM}._decoded AS {decoded}")
    made: list[str] = []
    for place, (pins, ranges) in enumerate(pinned.ranges.items()):
        _take_references(database, settings, pipeline, pins)
        mine = within(ranges, "_topic", "_partition", "_offset")
        database.execute(
            f"CREATE OR REPLACE TABLE {_ROOM}.changes AS SELECT {columns}, struct_pack({packed}) AS {LINEAGE} "
            f"FROM {_ROOM}._decoded WHERE _kind = 'upsert' AND {mine} AND {WANTED}"
        )
        name = f"{_ROOM}._made_{place}"
        try:
            database.execute(f"SET schema = '{_ROOM}'")
            kinds = database.execute(f"DESCRIBE {statement}").fetchall()
            out = _as_declared(pipeline.columns, {column: type_ for column, type_, *_ in kinds}, what)
            database.execute(f"CREATE TABLE {name} AS SELECT {out}, unnest({LINEAGE}) FROM ({statement}) made")
        except duckdb.Error as error:
            raise NotRecomputed(f"DuckDB cannot compute {what}: {str(error).splitlines()[0]}") from error
        finally:
            database.execute("SET schema = 'main'")
        made.append(f"SELECT * FROM {name}")
    source = {column.name for column in pipeline.source.columns}
    kept = (c.name for c in pipeline.columns if c.name in pipeline.change.keys and c.name in source)
    bypass = ", ".join([*map(sql_name, kept), *map(sql_name, own)])
    made.append(f"SELECT {bypass} FROM {_ROOM}._decoded WHERE _kind <> 'upsert' AND NOT {is_none(pipeline)}")
    return " UNION ALL BY NAME ".join(made)


def _types(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """The types of the columns that a transform may read, by name; without those that differ between tables."""
    assert pipeline.transform is not None, "the caller has checked it"
    tables = [{column.name.lower(): column.type for column in pipeline.source.columns}]
    for place in pipeline.transform.references.values():
        if (table := open_table(table_uri(settings, place))) is not None:
            fields = json.loads(table.schema().to_json())["fields"]
            tables.append({field["name"].lower(): str(field["type"]) for field in fields})
    names = {name for table in tables for name in table}
    found = {name: {table[name] for table in tables if name in table} for name in names}
    return {name: types.pop() for name, types in found.items() if len(types) == 1}


def _is_readable(settings: Settings, table: str, pin: Pin) -> bool:
    try:
        opened = open_table(table_uri(settings, table), pin.version)
        is_same = opened is not None and pin.table_id in (None, str(opened.metadata().id))
        return opened is not None and is_same and all_rows(opened) is not None
    except LakemarkError:
        return False


def _take_references(database: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, pins: Pins) -> None:
    assert pipeline.transform is not None, "the caller has checked it"
    for name, pin in pins:
        opened = open_table(table_uri(settings, pipeline.transform.references[name]), pin.version)
        assert opened is not None, "it has been read before"
        database.register("_reference", all_rows(opened))
        database.execute(f"CREATE OR REPLACE TABLE {_ROOM}.{sql_name(name)} AS SELECT * FROM _reference")
        database.unregister("_reference")


def _as_declared(columns: Iterable[Column], found: Mapping[str, str], what: str) -> str:
    """SQL for the declared columns of what comes out. Raises NotRecomputed if a value would have to become another
    one: DuckDB and Spark round in different ways."""
    types = {name.lower(): type_ for name, type_ in found.items()}
    parts = []
    for column in columns:
        given, declared = types.get(column.name.lower()), duckdb_type(column.type)
        if given is None or LINEAGE not in types:
            raise NotRecomputed(f"{what} makes no column {column.name}, or no {LINEAGE}")
        if not _is_exact(given, column):
            raise NotRecomputed(f"{what} makes {given} of {column.name}, which is {column.type}: only Spark casts it")
        parts.append(f"CAST({sql_name(column.name)} AS {declared}) AS {sql_name(column.name)}")
    return ", ".join(parts)


_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def _is_exact(given: str, column: Column) -> bool:
    declared = duckdb.type(duckdb_type(column.type))
    if duckdb.type(given) == declared:
        return True
    if given in _WHOLE or given.startswith("DECIMAL"):
        return word_of(column.type) in (*WHOLE, *DECIMALS) if given in _WHOLE else column.word in DECIMALS
    return given == '"NULL"'
