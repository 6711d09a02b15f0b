"""Takes in and decodes JSON records with DuckDB, by a pipeline's schema: a second way beside Spark's, for audits and
profiles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from include.kafka_source import RECORD_SCHEMA, Record
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError

_TEXT = "decode({}, 'replace')"
_HEADERS = f"list_transform(headers, lambda h: struct_pack(key := h.key, value := {_TEXT.format('h.value')}))"


def load(database: duckdb.DuckDBPyConnection, chunks: Iterable[Sequence[Record]]) -> int:
    """Makes the table `records` (the fields of `Record`); returns how many there are."""
    database.execute(
        'CREATE TABLE records (topic VARCHAR, partition INTEGER, "offset" BIGINT, timestamp TIMESTAMPTZ, '
        "key BLOB, value BLOB, headers STRUCT(key VARCHAR, value BLOB)[])"
    )
    loaded = 0
    for chunk in chunks:
        columns = dict(zip(Record._fields, map(list, zip(*chunk, strict=True)), strict=True))
        database.register("chunk", pa.table(columns, RECORD_SCHEMA))
        database.execute("INSERT INTO records SELECT * FROM chunk")
        loaded += len(chunk)
    return loaded


def decoded(pipeline: Pipeline, records: str) -> str:
    """Query that decodes records (the columns that `load` makes): the target's columns, what orders them by its name in
    the pipeline file, `_topic`, `_partition`, `_offset`, `_tombstone` (it has no value, and
    that means something), `_undecodable`.

    Raises:
        TerminalError: the format is not one that is read here.
    """
    source = pipeline.source
    if source.format != "json":
        raise TerminalError(
            what="records of this format are not decoded outside Spark",
            where=f"{pipeline.name}, source.format",
            expected="json",
            found=source.format,
            action="`lakemark audit` without --deep shows all that can be shown without it",
        )
    types = {column.name: _type(column.type) for column in source.value_columns}
    values = {name: _field(f"row.{quoted(name)}", type_) for name, type_ in types.items()}
    for name, of_key in _of_key(pipeline, types).items():
        values[name] = f"coalesce({values[name]}, {of_key})"
    values |= {name: _own(of) for name, of in source.metadata.items()}
    for order in pipeline.order:
        if order.of == "kafka":
            values[order.name] = "timestamp"
        elif order.name not in values:  # a field of a struct
            values[order.name] = "row." + ".".join(map(quoted, order.name.split(".")))
    fields = ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())
    transformed = f"json_transform({_object('value')}, {literal(_structures(types))})"
    tombstone = "false" if pipeline.tombstones == "quarantine" else "value IS NULL"
    return (
        f'SELECT {fields}, topic AS _topic, partition AS _partition, "offset" AS _offset, {tombstone} AS _tombstone, '
        f"row IS NULL AND NOT ({tombstone}) AS _undecodable FROM (SELECT *, {transformed} AS row FROM {records})"
    )


def _of_key(pipeline: Pipeline, types: Mapping[str, exp.DataType]) -> dict[str, str]:
    """Key columns from Kafka's key, by name."""
    keys = pipeline.change.keys
    if pipeline.source.key == "string":
        return {keys[0]: f"try_cast({_TEXT.format('key')} AS {types[keys[0]].sql('duckdb')})"}
    if pipeline.source.key == "json":
        wanted = {name: types[name] for name in keys}
        bare = f"json_transform({_object('key')}, {literal(_structures(wanted))})"
        within = f"json_transform({_object('key')}->'payload', {literal(_structures(wanted))})"
        return {
            name: " , ".join(_field(f"({part}).{quoted(name)}", types[name]) for part in (bare, within))
            for name in keys
        }
    return {}


def _own(of: str) -> str:
    """One of Kafka's own fields, or the last header of a name."""
    part, _, name = of.partition(".")
    if part == "headers":
        last = f"list_filter(headers, lambda h: h.key = {literal(name)})[-1].value"
        return _TEXT.format(last) if name else _HEADERS
    return _TEXT.format("key") if part == "key" else quoted(part)


def _object(column: str) -> str:
    text = _TEXT.format(column)
    return f"CASE WHEN json_valid({text}) AND json_type({text}) = 'OBJECT' THEN {text}::JSON END"


def _structures(types: Mapping[str, exp.DataType]) -> str:
    return json.dumps({name: _structure(type_) for name, type_ in types.items()})


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


def _field(field: str, type_: exp.DataType) -> str:
    return f"from_base64({field})" if type_.sql("duckdb") == "BLOB" else field


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
