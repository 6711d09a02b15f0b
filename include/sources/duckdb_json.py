"""Loads JSON records into DuckDB and decodes them by a pipeline's schema: a second way beside Spark's, for audits and
profiles.

DuckDB's own JSON reader passes numbers through doubles, and the texts that it accepts as times differ from
docs/semantics.md, "Values". So functions in Python first rewrite every record: the declared fields only, with values in
a form that DuckDB cannot misread.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from include.lake.sql import sql_name, sql_text
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.sources.json_values import parsed_json, value_as
from include.sources.kafka_records import RECORD_SCHEMA, Record

_ARROW, _SPECIAL = PythonUDFType.ARROW, FunctionNullHandling.SPECIAL
_TEXT = "text_of({})"
_LEVELS_MAX = 1_000  # of nesting, in JSON that a job reads
_HEADERS = f"list_transform(headers, lambda h: struct_pack(key := h.key, value := {_TEXT.format('h.value')}))"


def load(database: duckdb.DuckDBPyConnection, chunks: Iterable[Sequence[Record]]) -> int:
    """Creates the table `records` (the fields of `Record`) and the functions that `decoded` needs. Returns how many
    records there are."""
    for name, of_bytes in {"json_anew": _of_json, "text_anew": _of_text}.items():
        function = partial(_anew, of_bytes)
        database.create_function(
            name, function, ["BLOB", "VARCHAR", "VARCHAR"], "VARCHAR", type=_ARROW, null_handling=_SPECIAL
        )
    database.create_function("text_of", _text_of, ["BLOB"], "VARCHAR", type=_ARROW, null_handling=_SPECIAL)
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
    """SQL that decodes records (with the columns that `load` makes).

    Columns: the target's columns, the fields that order changes (by their names in the pipeline file), `_topic`,
    `_partition`, `_offset`, `_tombstone` (the record has no value, and the pipeline accepts that), `_undecodable`.

    Raises:
        TerminalError: the format cannot be decoded here.
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
    values = {name: _field(f"row.{sql_name(name)}", type_) for name, type_ in types.items()}
    for name, of_key in _of_key(pipeline, types).items():
        values[name] = f"coalesce({values[name]}, {of_key})"
    values |= {name: _own(of) for name, of in source.metadata.items()}
    for order in pipeline.order:
        if order.of == "kafka":
            values[order.name] = "timestamp"
        elif order.name not in values:  # a field of a struct
            values[order.name] = "row." + ".".join(map(sql_name, order.name.split(".")))
    fields = ", ".join(f"{value} AS {sql_name(name)}" for name, value in values.items())
    transformed = _row("value", types, source.timestamps)
    tombstone = "false" if pipeline.tombstones == "quarantine" else "value IS NULL"
    return (
        f'SELECT {fields}, topic AS _topic, partition AS _partition, "offset" AS _offset, {tombstone} AS _tombstone, '
        f"row IS NULL AND NOT ({tombstone}) AS _undecodable FROM (SELECT *, {transformed} AS row FROM {records})"
    )


def _of_key(pipeline: Pipeline, types: Mapping[str, exp.DataType]) -> dict[str, str]:
    """SQL for the key columns from Kafka's key, by name."""
    keys, unit = pipeline.change.keys, pipeline.source.timestamps
    wanted = {name: types[name] for name in keys if name in types}  # Kafka's own fields may be keys, too
    if pipeline.source.key == "string":
        row = _row("key", wanted, unit, "text_anew")
        return {keys[0]: _field(f"({row}).{sql_name(keys[0])}", types[keys[0]])}
    if pipeline.source.key == "json":
        bare = _row("key", wanted, unit)
        within = f"({_row('key', {'payload': _struct(wanted)}, unit)}).payload"
        return {
            name: " , ".join(_field(f"({part}).{sql_name(name)}", types[name]) for part in (bare, within))
            for name in keys
        }
    return {}


def _own(of: str) -> str:
    """SQL for one of Kafka's own fields, or for the last header of a name."""
    part, _, name = of.partition(".")
    if part == "headers":
        last = f"list_filter(headers, lambda h: h.key = {sql_text(name)})[-1].value"
        return _TEXT.format(last) if name else _HEADERS
    return _TEXT.format("key") if part == "key" else sql_name(part)


def _row(column: str, types: Mapping[str, exp.DataType], unit: str | None, function: str = "json_anew") -> str:
    """SQL for the fields of bytes as a struct; null if they are no JSON object."""
    structure = json.dumps({name: _structure(type_) for name, type_ in types.items()})
    told = f"{sql_text(_struct(types).sql('spark'))}, {sql_text(unit) if unit else 'NULL'}"
    return f"json_transform({function}({column}, {told})::JSON, {sql_text(structure)})"


def _struct(types: Mapping[str, exp.DataType]) -> exp.DataType:
    fields = [exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=type_) for name, type_ in types.items()]
    return exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True)


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


def _anew(of_bytes: Callable[[bytes, exp.DataType], Any], values: Any, types: Any, units: Any) -> pa.Array:
    """Rewrites bytes as JSON that DuckDB cannot misread.

    Args:
        values: bytes. types, units: one for each of them, the same for all.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * _LEVELS_MAX))  # a level of JSON is a call or two
    found = zip(values.to_pylist(), types.to_pylist(), units.to_pylist(), strict=True)
    return pa.array([None if v is None else _written_anew(of_bytes, v, *told) for v, *told in found], pa.string())


def _text_of(values: Any) -> pa.Array:
    """Bytes as text, as Spark decodes them. Invalid bytes become fewer or more characters in DuckDB's `decode`."""
    return pa.array([None if v is None else v.decode(errors="replace") for v in values.to_pylist()], pa.string())


def _written_anew(
    of_bytes: Callable[[bytes, exp.DataType], Any], value: bytes, spark_type: str, unit: str | None
) -> str | None:
    type_ = _parsed(spark_type)
    try:
        found = of_bytes(value, type_)
    except (ValueError, RecursionError):  # UnicodeError, too
        return None
    return json.dumps(value_as(found, type_, unit)) if isinstance(found, dict) else None


@lru_cache
def _parsed(spark_type: str) -> exp.DataType:
    return exp.DataType.build(spark_type, dialect="spark")


def _of_json(value: bytes, _: exp.DataType) -> Any:
    return parsed_json(value)


def _of_text(value: bytes, type_: exp.DataType) -> Any:
    """A text as the only field of an object."""
    return {type_.expressions[0].name: value.decode()}
