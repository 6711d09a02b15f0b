"""Reads records without Spark, as docs/semantics.md says: a second way beside the job's, for audits and profiles. Pure.

A reader makes of a record's value an object of JSON with these fields; it makes None of what it cannot read:

- row: the declared columns, in the form that DuckDB reads exactly (see `json_values`)
- kind: upsert, delete, truncate or none
- absent: the columns that the record leaves out and that then keep their values
- rescued: what the declared columns do not hold, as texts; only if the pipeline rescues
- old, position, at: only of Debezium's envelopes (see `debezium_reader`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from sqlglot import exp

from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject, JsonValue
from include.sources.debezium_reader import DebeziumReader
from include.sources.json_values import fits, json_text, parsed_json, text_as, value_as

Reader = Callable[[bytes], JsonObject | None]
Types = Mapping[str, exp.DataType]


def spark_type(type_: str) -> exp.DataType:
    """A type of Spark's DDL, parsed."""
    parsed = exp.DataType.build(type_, dialect="spark")
    if parsed.this in (exp.DataType.Type.DECIMAL,) and not parsed.expressions:
        parsed = exp.DataType.build("DECIMAL(10, 0)", dialect="spark")  # Spark's default
    return parsed


def value_reader(pipeline: Pipeline) -> Reader | None:
    """The reader of a pipeline's values; None: there is no plain reader for the format."""
    types = {column.name: spark_type(column.type) for column in pipeline.source.value_columns}
    match pipeline.source.format:
        case "json":
            return partial(_json, pipeline, types)
        case "debezium-json":
            return DebeziumReader.of(pipeline, types).read
        case "csv":
            return partial(_csv, pipeline, types)
        case "string":
            return partial(_string, next(iter(types)))
        case _:
            return None


def key_reader(pipeline: Pipeline) -> Reader | None:
    """The reader of Kafka's key, which makes an object of the key columns; None: keys are in the value, or there is no
    plain reader."""
    types = {c.name: spark_type(c.type) for c in pipeline.source.value_columns if c.name in pipeline.change.keys}
    match pipeline.source.key:
        case "json" if pipeline.source.is_debezium:
            return partial(_debezium_key, DebeziumReader.of(pipeline, types))
        case "json":
            return partial(_json_key, types, pipeline.source.timestamps)
        case "string":
            return partial(_text_key, types, pipeline.source.timestamps)
        case _:
            return None


def _json(pipeline: Pipeline, types: Types, value: bytes) -> JsonObject | None:
    found = parsed_json(value)
    if not isinstance(found, dict):
        return None
    unit = pipeline.source.timestamps
    made: JsonObject = {"kind": "upsert", "absent": [name for name in pipeline.partial_columns if name not in found]}
    if not pipeline.rescues:
        return {**made, "row": {name: value_as(found.get(name), type_, unit) for name, type_ in types.items()}}
    lost = {name for name, type_ in types.items() if not fits(found.get(name), type_, unit)}
    row = {n: None if n in lost else value_as(found.get(n), type_, unit) for n, type_ in types.items()}
    rescued = {n: json_text(node) for n, node in found.items() if n in lost or n not in types}
    return {**made, "row": row, "rescued": rescued}


def _string(name: str, value: bytes) -> JsonObject:
    return {"kind": "upsert", "absent": [], "row": {name: value.decode()}}


def _csv(pipeline: Pipeline, types: Types, value: bytes) -> JsonObject | None:
    form, line = pipeline.source.csv, value.decode().rstrip("\r\n")
    if not line and len(types) > 1:
        return None
    fields = list(_fields_of(line, form.delimiter, form.quote, form.escape))
    if len(fields) != len(types):
        return None
    unit = pipeline.source.timestamps
    pairs = zip(types.items(), fields, strict=True)
    row = {name: None if text == form.null else text_as(text, type_, unit) for (name, type_), text in pairs}
    return {"kind": "upsert", "absent": [], "row": row}


def _fields_of(line: str, delimiter: str, quote: str, escape: str) -> Iterator[str]:
    """The fields of a line of CSV. Raises ValueError if it is no such line."""
    rest: str | None = line
    while rest is not None:
        if rest.startswith(quote):
            field, rest = _quoted(rest, quote, escape)
        else:
            end = rest.find(delimiter)
            field, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
            if "\n" in field or "\r" in field:
                raise ValueError("several lines")
        yield field
        if rest and not rest.startswith(delimiter):
            raise ValueError("text behind a closing quote")
        rest = rest[1:] if rest else None


def _quoted(text: str, quote: str, escape: str) -> tuple[str, str]:
    """A field within quotes, and the text behind it. Raises ValueError if no quote closes it."""
    field, at = "", 1
    while at < len(text):
        following = text[at + 1 : at + 2]
        if text[at] == escape and following in (quote, escape) and following:
            at += 1
        elif text[at] == quote:
            if following != quote:
                return field, text[at + 1 :]
            at += 1
        field += text[at]
        at += 1
    raise ValueError("a quote that does not close")


def _text_key(types: Types, unit: str | None, key: bytes) -> JsonObject:
    return {name: text_as(key.decode(), type_, unit) for name, type_ in types.items()}


def _json_key(types: Types, unit: str | None, key: bytes) -> JsonObject | None:
    image, _ = key_parts(key, types)
    if not isinstance(image, dict):
        return None
    return {name: value_as(image.get(name), type_, unit) for name, type_ in types.items()}


def _debezium_key(reader: DebeziumReader, key: bytes) -> JsonObject | None:
    image, schema = key_parts(key, reader.types)
    told = schema.get("fields") if isinstance(schema, dict) else None
    return reader.values_of(image, reader.types, told) if isinstance(image, dict) else None


def key_parts(key: bytes, types: Types) -> tuple[JsonValue, JsonValue]:
    """The part of a JSON key that holds the columns, and the schema that it brings along. The columns are in `payload`
    if none of them is beside it."""
    found = parsed_json(key)
    if not isinstance(found, dict):
        return None, None
    payload, names = found.get("payload"), {name.lower() for name in types}
    is_bare = any(found.get(name) is not None for name in types if name.lower() != "schema")
    if payload is None or is_bare or "payload" in names:
        return found, None
    return payload, None if "schema" in names else found.get("schema")
