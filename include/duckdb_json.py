"""Takes in and decodes JSON records with DuckDB, by a pipeline's schema: a second way beside Spark's, for audits and
profiles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from include.schema_ddl import Column

_RECORD = ("topic", "partition", "offset", "value")


def load(database: duckdb.DuckDBPyConnection, chunks: Iterable[Sequence[tuple]]) -> int:
    """Makes the table `records` (topic, partition, offset, value) of `records_of`; returns how many there are."""
    database.execute('CREATE TABLE records (topic VARCHAR, partition INTEGER, "offset" BIGINT, value BLOB)')
    loaded = 0
    for chunk in chunks:
        database.register("chunk", pa.table(dict(zip(_RECORD, map(list, zip(*chunk, strict=True)), strict=True))))
        database.execute("INSERT INTO records SELECT * FROM chunk")
        loaded += len(chunk)
    return loaded


def decoded(columns: Sequence[Column], records: str) -> str:
    """Query that decodes the `value` of records (topic, partition, offset, value): the schema's columns, `_topic`,
    `_partition`, `_offset`, and `_undecodable`."""
    types = {column.name: _type(column.type) for column in columns}
    structure = json.dumps({name: _structure(type_) for name, type_ in types.items()})
    text = "decode(value, 'replace')"
    document = f"CASE WHEN json_valid({text}) AND json_type({text}) = 'OBJECT' THEN {text}::JSON END"
    fields = ", ".join(f"{_field(name, type_)} AS {quoted(name)}" for name, type_ in types.items())
    return (
        f'SELECT {fields}, topic AS _topic, partition AS _partition, "offset" AS _offset, row IS NULL AS _undecodable '
        f"FROM (SELECT *, json_transform({document}, {literal(structure)}) AS row FROM {records})"
    )


def _type(type_: str) -> exp.DataType:
    parsed = exp.DataType.build(type_, dialect="spark")
    if parsed.this in (exp.DataType.Type.DECIMAL,) and not parsed.expressions:
        parsed = exp.DataType.build("DECIMAL(10, 0)", dialect="spark")  # Spark's default
    return parsed


def _structure(type_: exp.DataType) -> object:
    """The type as DuckDB's `json_transform` takes it."""
    match type_.this:
        case exp.DataType.Type.STRUCT:
            return {field.name: _structure(field.args["kind"]) for field in type_.expressions}
        case exp.DataType.Type.ARRAY:
            return [_structure(type_.expressions[0])]
        case exp.DataType.Type.BINARY | exp.DataType.Type.VARBINARY:
            return "VARCHAR"
        case _:
            return type_.sql("duckdb").replace("TEXT", "VARCHAR")


def _field(name: str, type_: exp.DataType) -> str:
    field = f"row.{quoted(name)}"
    return f"from_base64({field})" if type_.sql("duckdb") == "BLOB" else field


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
