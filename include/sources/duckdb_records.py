"""Loads records into DuckDB and decodes them by a pipeline's schema: a second way beside Spark's, for audits and
profiles.

DuckDB's own JSON reader passes numbers through doubles, and the texts that it accepts as times differ from
docs/semantics.md, "Values". So functions in Python first rewrite every record: the declared fields only, with values in
a form that DuckDB cannot misread.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from include.lake.sql import sql_name, sql_text
from include.pipeline_file import RESCUED, Pipeline
from include.pipeline_file.debezium import POSITIONS
from include.protocol.errors import TerminalError
from include.sources.kafka_records import RECORD_SCHEMA, Record
from include.sources.record_readers import Reader, key_reader, spark_type, value_reader

_ARROW, _SPECIAL = PythonUDFType.ARROW, FunctionNullHandling.SPECIAL
_TEXT = "text_of({})"
_LEVELS_MAX = 1_000  # of nesting, in JSON that a job reads
_HEADERS = f"list_transform(headers, lambda h: struct_pack(key := h.key, value := {_TEXT.format('h.value')}))"
_NONE: dict[str, object] = {"none": "VARCHAR"}  # DuckDB has no structs without fields


def load(database: duckdb.DuckDBPyConnection, pipeline: Pipeline, chunks: Iterable[Sequence[Record]]) -> int:
    """Creates the table `records` (the fields of `Record`) and the functions that `decoded` needs. Returns how many
    records there are."""
    for name, reader in {"read_value": value_reader(pipeline), "read_key": key_reader(pipeline)}.items():
        if reader is not None:
            database.create_function(
                name, partial(_read, reader), ["BLOB"], "VARCHAR", type=_ARROW, null_handling=_SPECIAL
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


def unreadable(pipeline: Pipeline) -> str | None:
    """Why a pipeline's records cannot be decoded here; None: they can."""
    if value_reader(pipeline) is None:
        return f"only Spark decodes source.format {pipeline.source.format}"
    if pipeline.source.key is not None and key_reader(pipeline) is None:
        return f"only Spark decodes source.key {pipeline.source.key}"
    return None


def same_json(database: duckdb.DuckDBPyConnection) -> None:
    """Creates the function `same_json`: an object of JSON without its nulls, in a form that equal objects share."""
    database.create_function("same_json", _same_json, ["VARCHAR"], "VARCHAR", type=_ARROW, null_handling=_SPECIAL)


def decoded(pipeline: Pipeline, records: str) -> str:
    """SQL that decodes records (with the columns that `load` makes).

    Columns: the source's columns; the fields that order changes (by their names in the pipeline file); `_rescued` if
    the pipeline rescues; `_topic`, `_partition`, `_offset`, `_timestamp`; `_kind` (upsert, delete, truncate, none, and
    tombstone for a record without a value); `_absent`, the columns that it leaves out and that keep their values;
    `_old`, a struct of the keys before it, or null; `_at`, from when it is valid, if Debezium says that; `_tombstone`
    (the record has no value, and the pipeline accepts that); `_undecodable`.

    Raises:
        TerminalError: the format cannot be decoded here.
    """
    source = pipeline.source
    if (why := unreadable(pipeline)) is not None:
        raise TerminalError(
            what="records of this format are not decoded outside Spark",
            where=pipeline.name,
            expected="json, debezium-json, csv or string",
            found=why,
            action="write the suite by hand: docs/quality.md",
        )
    types = {column.name: spark_type(column.type) for column in source.value_columns}
    keys = {name: type_ for name, type_ in types.items() if name in pipeline.change.keys}
    values = {name: typed(f"_v.row.{sql_name(name)}", type_) for name, type_ in types.items()}
    if source.key is not None:
        values |= {n: f"coalesce({values[n]}, {typed(f'_k.{sql_name(n)}', keys[n])})" for n in keys}
    values |= {name: _own(of) for name, of in source.metadata.items()}
    if pipeline.rescues:
        values[RESCUED] = "_v.rescued"
    for order in (*pipeline.order, *([pipeline.valid_from] if pipeline.keeps_history else [])):
        if order.of == "kafka":
            values[order.name] = "timestamp"
        elif order.of == "position":
            values[order.name] = f"_v.position.{sql_name(order.name)}"
        elif order.of == "field" and pipeline.transform is None:  # a transform's rows have structs of their own
            values[order.name] = "_v.row." + ".".join(map(sql_name, order.name.split(".")))
    fields = ", ".join(f"{value} AS {sql_name(name)}" for name, value in values.items())
    old = f"CASE WHEN _v.old IS NOT NULL THEN {_struct('_v.old', keys)} END" if keys else "NULL"
    tombstone = "false" if pipeline.tombstones == "quarantine" else "value IS NULL"
    structure = {
        "row": _structure_of(types),
        "kind": "VARCHAR",
        "absent": ["VARCHAR"],
        "rescued": "VARCHAR",
        "old": _structure_of(keys),
        "position": {n: _structure(spark_type(POSITIONS[n])) for n in pipeline.positions} or _NONE,
        "at": "TIMESTAMPTZ",
    }
    key = f"json_transform(read_key(key)::JSON, {_text(_structure_of(keys))})" if source.key is not None else "NULL"
    return (
        f'SELECT {fields}, topic AS _topic, partition AS _partition, "offset" AS _offset, timestamp AS _timestamp, '
        f"CASE WHEN value IS NULL THEN 'tombstone' ELSE _v.kind END AS _kind, _v.absent AS _absent, {old} AS _old, "
        f"_v.at AS _at, {tombstone} AS _tombstone, _v IS NULL AND NOT ({tombstone}) AS _undecodable "
        f"FROM (SELECT *, json_transform(read_value(value)::JSON, {_text(structure)}) AS _v, {key} AS _k "
        f"FROM {records})"
    )


def typed(field: str, type_: exp.DataType) -> str:
    """SQL for a value of `json_transform`, in which bytes are base64."""
    if not any(part.this.value in ("BINARY", "VARBINARY") for part in type_.find_all(exp.DataType)):
        return field
    match type_.this.value:
        case "ARRAY":
            return f"list_transform({field}, lambda i: {typed('i', type_.expressions[0])})"
        case "MAP":
            inner = typed("i.value", type_.expressions[1])
            entries = f"list_transform(map_entries({field}), lambda i: struct_pack(key := i.key, value := {inner}))"
            return f"CASE WHEN {field} IS NOT NULL THEN map_from_entries({entries}) END"
        case "STRUCT":
            packed = _struct(field, {part.name: part.args["kind"] for part in type_.expressions})
            return f"CASE WHEN {field} IS NOT NULL THEN {packed} END"
        case _:
            return f"from_base64({field})"


def duckdb_type(type_: str) -> str:
    """A type of Spark's DDL as DuckDB's."""
    return spark_type(type_).sql("duckdb")


def _struct(field: str, types: Mapping[str, exp.DataType]) -> str:
    inner = (f"{sql_name(n)} := {typed(f'{field}.{sql_name(n)}', type_)}" for n, type_ in types.items())
    return f"struct_pack({', '.join(inner)})"


def _own(of: str) -> str:
    """SQL for one of Kafka's own fields, or for the last header of a name."""
    part, _, name = of.partition(".")
    if part == "headers":
        last = f"list_filter(headers, lambda h: h.key = {sql_text(name)})[-1].value"
        return _TEXT.format(last) if name else _HEADERS
    return _TEXT.format("key") if part == "key" else sql_name(part)


def _text(structure: object) -> str:
    return sql_text(json.dumps(structure))


def _structure_of(types: Mapping[str, exp.DataType]) -> dict[str, object]:
    return {name: _structure(type_) for name, type_ in types.items()} or _NONE


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
            return type_.sql("duckdb").replace("TEXT", "VARCHAR").replace("BLOB", "VARCHAR")


def _read(reader: Reader, values: Any) -> pa.Array:
    """Rewrites bytes as JSON that DuckDB cannot misread; null: they cannot be read."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * _LEVELS_MAX))  # a level of JSON is a call or two
    return pa.array([None if v is None else _written_anew(reader, v) for v in values.to_pylist()], pa.string())


def _written_anew(reader: Reader, value: bytes) -> str | None:
    try:
        found = reader(value)
    except (ValueError, RecursionError):  # UnicodeError, too
        return None
    if found is not None and "rescued" in found:
        found["rescued"] = json.dumps(found["rescued"])
    return None if found is None else json.dumps(found)


def _text_of(values: Any) -> pa.Array:
    """Bytes as text, as Spark decodes them. Invalid bytes become fewer or more characters in DuckDB's `decode`."""
    return pa.array([None if v is None else v.decode(errors="replace") for v in values.to_pylist()], pa.string())


def _same_json(texts: Any) -> pa.Array:
    return pa.array([None if t is None else _sorted_json(t) for t in texts.to_pylist()], pa.string())


def _sorted_json(text: str) -> str | None:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    kept = {name: value for name, value in found.items() if value is not None}
    return json.dumps(kept, sort_keys=True) if kept else None
