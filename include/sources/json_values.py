"""The values of a JSON record in the form that DuckDB reads exactly, by the types of Spark's DDL. Pure.

docs/semantics.md, "Values", says which texts and numbers are values of which type.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from sqlglot import exp

from include.protocol.json_data import JsonValue


class _Number(str):
    """A number of JSON, as it is written."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
_DAYS_OF_YEARS_0_TO_3 = 1_461
_UNITS = (*_MICROS, "nanos")
_EXACT = Context(prec=2_000, Emax=999_999, Emin=-999_999)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_DECIMAL = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?0*[0-9]{1,3})?")
_NOT_FINITE = re.compile(r"([+-]?)(?:Infinity|INF|Inf)|NaN")
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)? *(Z|[+-][0-9:]+)?)?)? *"
)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_OFFSET = re.compile(r"([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})|:([0-9]{2}):([0-9]{2}))?|([0-9]{2})([0-9]{2})([0-9]{2})?)")
_ESCAPED = {character: f"\\u{character:04X}" for character in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def parsed_json(value: bytes) -> JsonValue:
    """Parses JSON; its numbers keep their text. Raises ValueError if it is no JSON."""
    found = json.loads(value.decode(), parse_int=_Number, parse_float=_Number, parse_constant=_refused)
    if b"\\ud" in value.lower():  # the escape of half a surrogate pair, which alone has no UTF-8
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _refused(text: str) -> Any:
    raise ValueError(text)


def value_as(node: JsonValue, type_: exp.DataType, unit: str | None) -> JsonValue:
    """A value of JSON in a form that DuckDB reads exactly as the type; None if it is no value of the type."""
    if node is None:
        return None
    word = type_.this.value
    if word in ("STRUCT", "MAP"):
        if not isinstance(node, dict):
            return None
        if word == "MAP":
            return {name: value_as(item, type_.expressions[1], unit) for name, item in node.items()}
        return {f.name: value_as(node.get(f.name), f.args["kind"], unit) for f in type_.expressions}
    if word == "ARRAY":
        return [value_as(item, type_.expressions[0], unit) for item in node] if isinstance(node, list) else None
    if word in ("TEXT", "VARCHAR", "CHAR"):
        return str(node) if isinstance(node, str) else _json(node)
    if word == "BOOLEAN" and isinstance(node, bool):
        return node
    return _of_words(node, type_, unit) if isinstance(node, str) else None


def text_as(text: str, type_: exp.DataType, unit: str | None) -> JsonValue:
    """A text, such as a field of CSV, in the same form; None if it is no value of the type."""
    match type_.this.value:
        case "TEXT" | "VARCHAR" | "CHAR":
            return str(text)
        case "BINARY" | "VARBINARY":  # the text's own bytes
            return base64.b64encode(text.encode()).decode()
        case _:
            return _of_words(text, type_, unit)


def json_text(node: JsonValue) -> str | None:
    """A text as it is, any other value as its JSON; None for null."""
    if node is None or isinstance(node, str):
        return None if node is None else str(node)
    return _json(node)


def fits(node: JsonValue, type_: exp.DataType, unit: str | None) -> bool:
    """Whether a value of JSON, with all that is in it, is a value of the type. A text is no number, and no boolean."""
    if node is None:
        return True
    word, is_text = type_.this.value, type(node) is str
    if isinstance(node, dict) and word == "MAP":
        return all(fits(item, type_.expressions[1], unit) for item in node.values())
    if isinstance(node, dict) and word == "STRUCT":
        return all(fits(node.get(f.name), f.args["kind"], unit) for f in type_.expressions)
    if isinstance(node, list) and word == "ARRAY":
        return all(fits(item, type_.expressions[0], unit) for item in node)
    if not is_text and word in ("BINARY", "VARBINARY"):
        return False
    if is_text and (word in _BITS or word == "BOOLEAN"):
        return False
    if is_text and word in ("FLOAT", "DOUBLE") and not _NOT_FINITE.fullmatch(node):
        return False
    return value_as(node, type_, unit) is not None


def _of_words(text: str, type_: exp.DataType, unit: str | None) -> Any:
    """A number as it is written, or a text, as a value of a simple type."""
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
            moment = moment_of(text, unit)
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


def moment_of(text: str, unit: str | None) -> datetime | None:
    """A time in UTC, from a text or a number of units. Digits beyond microseconds are rounded down."""
    try:
        if re.fullmatch(r"-?[0-9]{1,19}", text) and unit in _UNITS and _fits(int(text), 64):
            micros = int(text) // 1_000 if unit == "nanos" else int(text) * _MICROS[unit or ""]
            return _EPOCH + timedelta(microseconds=micros)
        found = _MOMENT.fullmatch(text)
        if not found:
            return None
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        micros = int(f"{found[7] or '':0<6}"[:6])
        # Python has no year 0, but it may end before the first hour of year 1 in UTC. Year 4 has the same days.
        wall = datetime(year or 4, month, day, hour=hour, minute=minute, second=second, microsecond=micros)
        zone = _offset(found[8]).utcoffset(None)
        return (wall - zone - timedelta(days=0 if year else _DAYS_OF_YEARS_0_TO_3)).replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # no such day, or one beyond the years 1 to 9999
        return None


def _offset(text: str | None) -> timezone:
    """The time zone with an offset from UTC. Raises ValueError if the text is no offset."""
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
    return str(text) if _BASE64.fullmatch(text) else None


def _json(node: Any) -> str:
    """The JSON of a value without spaces; its numbers as they are written."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(value)}" for name, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_json, node)) + "]"
    if isinstance(node, _Number):
        return str(node)
    if isinstance(node, str):
        return '"' + node.translate(_ESCAPED) + '"'
    return json.dumps(node)
