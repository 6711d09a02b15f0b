"""The values of columns as texts that other systems read: SQL of DuckDB, which makes them a column at a time.

No value is rounded or cut. What JSON cannot say (NaN, bytes) is a text there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from include.lake.sql import sql_name, sql_text
from include.pipeline_file.kept_values import TypeAtSink
from include.pipeline_file.schema_ddl import canonical, fields_of, nested, split, word_of
from include.pipeline_file.sink_columns import SinkColumn

_PLAIN_IN_JSON = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
_NO_NUL = "�"  # in place of the character NUL, which databases refuse in texts


def postgresql_value(column: SinkColumn) -> str:
    """SQL for a column's values as COPY reads them in CSV."""
    name = sql_name(column.name)
    match word_of(canonical(column.type)):
        case "STRING":
            return _without_nul(name)
        case "BINARY":
            return f"'\\x' || lower(hex({name}))"
        case "DATE" | "TIMESTAMP" | "TIMESTAMP_NTZ":
            before_christ = f"regexp_replace({name}::VARCHAR, '^(\\S+) \\(BC\\)(.*)$', '\\1\\2 BC')"
            return f"CASE WHEN year({name}) < 1 THEN {before_christ} ELSE {name}::VARCHAR END"
        case "ARRAY" | "MAP" | "STRUCT":
            return f"CASE WHEN {name} IS NULL THEN NULL ELSE {json_value(name, column.type, without_nul=True)} END"
    return name


def mysql_value(column: SinkColumn) -> str:
    """SQL for a column's values as LOAD DATA reads them; bytes are in hexadecimal (`is_binary`)."""
    name = sql_name(column.name)
    match word_of(canonical(column.type)):
        case "BOOLEAN":
            return f"{name}::INTEGER"
        case "BINARY":
            return f"hex({name})"
        case "TIMESTAMP":
            return f"strftime({name} AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%f')"
        case "TIMESTAMP_NTZ":
            return f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')"
        case "ARRAY" | "MAP" | "STRUCT":
            return f"CASE WHEN {name} IS NULL THEN NULL ELSE {json_value(name, column.type)} END"
    return name


def changed_text(column: SinkColumn, at_sink: TypeAtSink) -> str | None:
    """SQL condition for texts that a type cuts, or writes otherwise, without a word; None: it keeps each, or the server
    refuses it.

    An identifier has many forms, and its server keeps one; spaces at a text's end go without an error; and of two keys,
    of which one has NUL and one U+FFFD, PostgreSQL would see one."""
    name = sql_name(column.name)
    if word_of(canonical(column.type)) != "STRING":
        return None
    conditions = []
    if column.is_key and at_sink.system == "postgresql":
        conditions.append(f"contains({name}, chr(0))")
    if at_sink.base == "uuid":
        conditions.append(f"{name} <> coalesce(TRY_CAST({name} AS UUID)::VARCHAR, '')")
    if at_sink.base in ("character varying", "varchar") and at_sink.arguments:
        conditions.append(f"length({name}) > {at_sink.arguments[0]}")
    return " OR ".join(conditions) or None


def is_binary(column: SinkColumn) -> bool:
    """Whether a column holds bytes."""
    return word_of(canonical(column.type)) == "BINARY"


def json_object(columns: Sequence[SinkColumn], more: Mapping[str, str] | None = None) -> str:
    """SQL for a row as a JSON object. Args: more: fields that follow, with their values in JSON."""
    fields = {column.name: json_value(sql_name(column.name), column.type) for column in columns}
    fields |= {name: sql_text(value) for name, value in (more or {}).items()}
    return f"'{{' || {_joined([f'{sql_text(_quoted(name) + chr(58))} || {v}' for name, v in fields.items()])} || '}}'"


def text_value(column: SinkColumn) -> str:
    """SQL for a column's values as plain texts."""
    return f"{sql_name(column.name)}::VARCHAR"


def json_value(value: str, type_: str, without_nul: bool = False) -> str:
    """SQL for a value as JSON; `null` for null.

    Args:
        value: SQL. type_: the value's, as Spark's DDL has it. without_nul: texts have no NUL.
    """
    return f"coalesce({_json(value, type_, without_nul)}, 'null')"


def _json(value: str, type_: str, without_nul: bool) -> str:
    match nested(type_):
        case ("STRUCT", inner):
            fields = fields_of(inner)
            parts = [
                f"{sql_text(_quoted(f.name) + ':')} || {json_value(f'{value}.{sql_name(f.name)}', f.type, without_nul)}"
                for f in fields
            ]
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE '{{' || {_joined(parts)} || '}}' END"
        case ("ARRAY", inner):
            each = json_value("x", inner, without_nul)
            return f"'[' || array_to_string(list_transform({value}, lambda x: {each}), ',') || ']'"
        case ("MAP", inner):
            of_keys, of_values = split(inner)  # keys are STRING: the pipeline file's own check asks for it
            each = f"{_json('x.key', of_keys, without_nul)} || ':' || {json_value('x.value', of_values, without_nul)}"
            return f"'{{' || array_to_string(list_transform(map_entries({value}), lambda x: {each}), ',') || '}}'"
    match word_of(canonical(type_)):
        case "FLOAT" | "DOUBLE":
            return f"CASE WHEN isfinite({value}) THEN {value}::VARCHAR ELSE '\"' || {value}::VARCHAR || '\"' END"
        case "STRING":
            return f"to_json({_without_nul(value) if without_nul else value})::VARCHAR"
        case "BINARY":
            return f"'\"' || base64({value}) || '\"'"
        case "TIMESTAMP":
            return f"strftime({value} AT TIME ZONE 'UTC', '\"%Y-%m-%dT%H:%M:%S.%fZ\"')"
        case "TIMESTAMP_NTZ":
            return f"strftime({value}, '\"%Y-%m-%dT%H:%M:%S.%f\"')"
        case word if word in _PLAIN_IN_JSON:
            return f"{value}::VARCHAR"
    return f"'\"' || {value}::VARCHAR || '\"'"


def _joined(parts: list[str]) -> str:
    return " || ',' || ".join(parts) if parts else "''"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _without_nul(value: str) -> str:
    return f"replace({value}, chr(0), {sql_text(_NO_NUL)})"
