"""Takes in and decodes JSON records with DuckDB, by a pipeline's schema: a second way beside Spark's, for audits and
profiles.

DuckDB's own reading passes numbers through doubles, and takes other texts for moments than docs/semantics.md, "Values",
says. So functions in Python first write every record anew: the declared fields only, their values in a form that
DuckDB cannot misread.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache, partial
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from include.lake.sql import sql_name, sql_text
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.sources.kafka import RECORD_SCHEMA, Record

_TEXT = "text_of({})"
_HEADERS = f"list_transform(headers, lambda h: struct_pack(key := h.key, value := {_TEXT.format('h.value')}))"


def load(database: duckdb.DuckDBPyConnection, chunks: Iterable[Sequence[Record]]) -> int:
    """Makes the table `records` (the fields of `Record`), and the functions that `decoded` needs; returns how many
    there are."""
    for name, of_bytes in {"json_anew": _of_json, "text_anew": _of_text}.items():
        function = partial(_anew, of_bytes)
        database.create_function(
            name, function, ["BLOB", "VARCHAR", "VARCHAR"], "VARCHAR", type="arrow", null_handling="special"
        )
    database.create_function("text_of", _text_of, ["BLOB"], "VARCHAR", type="arrow", null_handling="special")
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
    """Key columns from Kafka's key, by name."""
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
    """One of Kafka's own fields, or the last header of a name."""
    part, _, name = of.partition(".")
    if part == "headers":
        last = f"list_filter(headers, lambda h: h.key = {sql_text(name)})[-1].value"
        return _TEXT.format(last) if name else _HEADERS
    return _TEXT.format("key") if part == "key" else sql_name(part)


def _row(column: str, types: Mapping[str, exp.DataType], unit: str | None, function: str = "json_anew") -> str:
    """The fields of bytes as a struct; null: they are no JSON object."""
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


class _Number(str):
    """A number of JSON, as it is written."""


_LEVELS_MAX = 1_000  # of JSON that a job reads
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
_EXACT = Context(prec=2_000, Emax=999_999, Emin=-999_999)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_DECIMAL = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?0*[0-9]{1,3})?")
_NOT_FINITE = re.compile(r"([+-]?)(?:Infinity|INF|Inf)|NaN")
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))? *(Z|[+-][0-9:]+)?)?)?)? *"
)
_OFFSET = re.compile(r"([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})|:([0-9]{2}):([0-9]{2}))?|([0-9]{2})([0-9]{2})([0-9]{2})?)")
_ESCAPED = {character: f"\\u{character:04X}" for character in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def _anew(of_bytes: Callable[[bytes, exp.DataType], Any], values: Any, types: Any, units: Any) -> pa.Array:
    """Args: values: bytes; types, units: for each of them, and the same for all."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * _LEVELS_MAX))  # a level of JSON is a call or two
    found = zip(values.to_pylist(), types.to_pylist(), units.to_pylist(), strict=True)
    return pa.array([None if v is None else _written_anew(of_bytes, v, *told) for v, *told in found], pa.string())


def _text_of(values: Any) -> pa.Array:
    """As Spark has it: DuckDB's `decode` puts another number of characters in the place of bytes that are no text."""
    return pa.array([None if v is None else v.decode(errors="replace") for v in values.to_pylist()], pa.string())


def _written_anew(
    of_bytes: Callable[[bytes, exp.DataType], Any], value: bytes, spark_type: str, unit: str | None
) -> str | None:
    type_ = _parsed(spark_type)
    try:
        found = of_bytes(value, type_)
    except (ValueError, RecursionError):  # UnicodeError, too
        return None
    return json.dumps(_value(found, type_, unit)) if isinstance(found, dict) else None


@lru_cache
def _parsed(spark_type: str) -> exp.DataType:
    return exp.DataType.build(spark_type, dialect="spark")


def _of_json(value: bytes, _: exp.DataType) -> Any:
    found = json.loads(value.decode(), parse_int=_Number, parse_float=_Number, parse_constant=_refused)
    if b"\\ud" in value.lower():  # the escape of half of a pair of surrogates, which has no UTF-8 alone
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _of_text(value: bytes, type_: exp.DataType) -> Any:
    """A text, as the only field."""
    return {type_.expressions[0].name: value.decode()}


def _refused(text: str) -> Any:
    raise ValueError(text)


def _value(node: Any, type_: exp.DataType, unit: str | None) -> Any:
    """A value of JSON as one that DuckDB reads exactly as the type; None: it is none of the type."""
    if node is None:
        return None
    word = type_.this.value
    if word in ("STRUCT", "MAP"):
        if not isinstance(node, dict):
            return None
        if word == "MAP":
            return {name: _value(item, type_.expressions[1], unit) for name, item in node.items()}
        return {f.name: _value(node.get(f.name), f.args["kind"], unit) for f in type_.expressions}
    if word == "ARRAY":
        return [_value(item, type_.expressions[0], unit) for item in node] if isinstance(node, list) else None
    if word in ("TEXT", "VARCHAR", "CHAR"):
        return str(node) if isinstance(node, str) else _json(node)
    if word == "BOOLEAN" and isinstance(node, bool):
        return node
    return _of_words(node, type_, unit) if isinstance(node, str) else None


def _of_words(text: str, type_: exp.DataType, unit: str | None) -> Any:
    """A number as it is written, or a text, as a simple type."""
    match type_.this.value:
        case word if word in _BITS:
            return int(text) if re.fullmatch(r"[+-]?[0-9]{1,400}", text) and _fits(int(text), _BITS[word]) else None
        case "DECIMAL":
            return _decimal(text, *(int(part.name) for part in type_.expressions))
        case "FLOAT" | "DOUBLE" as word:
            return _real(text, word == "FLOAT")
        case "BOOLEAN":  # a key that is a text
            return {"true": True, "false": False}.get(text.lower())
        case "DATE":
            found = _DAY.fullmatch(text)
            return found and _day(found)
        case "TIMESTAMPTZ" | "TIMESTAMP" | "TIMESTAMPLTZ" | "TIMESTAMPNTZ" as word:
            moment = _moment(text, unit)
            return moment and moment.replace(tzinfo=None if word == "TIMESTAMPNTZ" else UTC).isoformat()
        case "BINARY" | "VARBINARY":
            return _base64(text)
        case _:
            return str(text)


def _fits(number: int, bits: int) -> bool:
    return -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)


def _decimal(text: str, precision: int = 10, scale: int = 0) -> str | None:
    if not _DECIMAL.fullmatch(text):
        return None
    found = _EXACT.create_decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return f"{found:f}" if found.copy_abs() < 10 ** (precision - scale) else None


def _real(text: str, is_float: bool) -> float | str | None:
    if not_finite := _NOT_FINITE.fullmatch(text):
        return "NaN" if text == "NaN" else "-Infinity" if not_finite[1] == "-" else "Infinity"
    try:
        found = float(text)
        return struct.unpack("<f", struct.pack("<f", found))[0] if is_float else found
    except (ValueError, OverflowError):
        return None


def _day(found: re.Match[str]) -> str | None:
    try:
        return date(*map(int, found.groups()[:3])).isoformat()
    except ValueError:
        return None


def _moment(text: str, unit: str | None) -> datetime | None:
    """Digits beyond microseconds are cut, downwards."""
    try:
        if re.fullmatch(r"-?[0-9]{1,19}", text) and unit and _fits(int(text), 64):
            micros = int(text) // 1_000 if unit == "nanos" else int(text) * _MICROS[unit]
            return _EPOCH + timedelta(microseconds=micros)
        found = _MOMENT.fullmatch(text)
        if not found:
            return None
        micros = int(f"{found[7] or '':0<6}"[:6])
        wall = datetime(*(int(part or 0) for part in found.groups()[:6]), micros, _offset(found[8]))
        return wall.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or one beyond the years 1 to 9999
        return None


def _offset(text: str | None) -> timezone:
    """Raises ValueError: it is none."""
    if text is None or text == "Z":
        return UTC
    found = _OFFSET.fullmatch(text)
    if not found:
        raise ValueError(text)
    parts = found.groups()
    hours, minutes, seconds = (int(parts[n] or parts[m] or 0) for n, m in ((1, 5), (2, 6), (4, 7)))
    minutes = int(parts[3] or minutes)
    if minutes > 59 or seconds > 59 or hours * 3_600 + minutes * 60 + seconds > 18 * 3_600:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if found[1] == "-" else offset)


def _base64(text: str) -> str | None:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return str(text)


def _json(node: Any) -> str:
    """The JSON of a value, without spaces, its numbers as they are written."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(value)}" for name, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_json, node)) + "]"
    if isinstance(node, _Number):
        return str(node)
    if isinstance(node, str):
        return '"' + node.translate(_ESCAPED) + '"'
    return json.dumps(node)
