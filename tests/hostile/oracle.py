"""What a record is, by the documentation and a careful reader: a row of these values, or nothing that one could know.

Plain Python. Where the documentation is silent, only what everybody reads alike is a row.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

from tests.hostile.types import INTEGERS, Schema, Type

DEPTH_MAX, NUMBER_MAX, NAME_MAX = 1_000, 1_000, 50_000  # of JSON: levels, characters
_EXPONENT_MAX = 400  # of a number: what goes beyond is set aside unread
_UNITS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
sys.setrecursionlimit(max(20_000, sys.getrecursionlimit()))  # a level of JSON is a call
EXACT = Context(prec=2_000, Emax=999_999, Emin=-999_999)


class NoRow(Exception):
    """The record is for the quarantine; says why, for people who read a failed test."""


class Unclear(Exception):
    """Two careful readers would differ: nothing is asked of the record but that it fails nothing."""


class Doubtful(Unclear):
    """A careful reader may refuse the record; one that does not makes this row of it (or, of a part, this value)."""

    def __init__(self, row: Any) -> None:
        super().__init__()
        self.row = row


class Number(str):
    """A number of JSON, as it is written."""


class Text(ABC):
    """A text that may be written in several ways."""

    @abstractmethod
    def is_said_by(self, text: str) -> bool: ...


@dataclass(frozen=True)
class Json:
    """A text that is this JSON, however it is spaced, and however doubles are written."""

    tree: Any


Row = dict[str, Any]


# Values


def _refuse_unclear(text: str) -> None:
    """White space around a value, and digits of other scripts."""
    if text != text.strip() or re.search(r"[^\x00-\x7f]", text):
        raise Unclear


def integer(text: str, bits: int) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        raise NoRow(f"no integer: {text[:40]}")
    value = Decimal(text)  # Python's int refuses long texts
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise NoRow(f"beyond {bits} bits: {text[:40]}")
    return int(value)


def number(text: str) -> Decimal:
    """A finite number that takes no computer long; raises NoRow."""
    _refuse_unclear(text)
    found = re.fullmatch(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", text, re.ASCII)
    if not found:
        raise NoRow(f"no number: {text[:40]}")
    exponent = (found[1] or "0").lstrip("+-").lstrip("0")
    if len(exponent) > 3 or int(exponent or "0") > 999 or len(text) > NUMBER_MAX:
        raise NoRow("a number that is too long")
    return EXACT.create_decimal(text)


def as_decimal(text: str, type_: Type) -> Decimal:
    value = number(text).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, EXACT)
    if value.copy_abs() >= 10 ** (type_.precision - type_.scale):  # `abs` rounds to 28 digits
        raise NoRow(f"beyond {type_.ddl}: {text[:40]}")
    return value


def as_double(text: str) -> float:
    if re.fullmatch(r"[+-]?(Infinity|INF|Inf)|NaN", text):
        return float(text)
    value = float(number(text))
    if value in (float("inf"), float("-inf")):
        raise NoRow("beyond a double")
    return value


def as_float(text: str) -> float:
    value = as_double(text)
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError as error:
        raise NoRow("beyond a float") from error


def moment(count: int, unit: str) -> datetime:
    """Nanoseconds are cut."""
    return _at(count // 1_000 if unit == "nanos" else count * _UNITS[unit])


def _at(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise NoRow("beyond the years 1 to 9999") from error


def _day(year: str, month: str, day: str) -> date:
    try:
        return date(int(year), int(month), int(day))
    except ValueError as error:
        raise NoRow(f"no day: {year}-{month}-{day}") from error


def as_date(text: str) -> date:
    found = re.fullmatch(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})([T ]00:00(:00(\.0+)?)?Z?)?", text)
    if not found:
        raise NoRow(f"no date: {text[:40]}")
    return _day(*found.groups()[:3])


_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
    r"(Z|[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?"
)


def as_timestamp(text: str, unit: str | None) -> datetime:
    """Digits beyond microseconds are cut."""
    _refuse_unclear(text)
    if re.fullmatch(r"[0-9-]{10}[T ][0-9]{1,2}|0000-12-31.*-.*|10000.*", text):
        raise Unclear
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        if unit is None:
            raise NoRow("a number, and nobody says of what")
        return moment(integer(text, 64), unit)
    found = _MOMENT.fullmatch(text)
    if not found:
        raise NoRow(f"no timestamp: {text[:40]}")
    day = _day(*found.groups()[:3])
    hour, minute, second = (int(part or 0) for part in found.groups()[3:6])
    micros = int(((found[7] or "") + "000000")[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise NoRow(f"no time of a day: {text[:40]}")
    seconds = (day.toordinal() - _EPOCH.date().toordinal()) * 86_400 + hour * 3_600 + minute * 60 + second
    return _at((seconds - _offset(found[8] or "Z")) * 1_000_000 + micros)


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise NoRow(f"no offset: {zone}")
    return (hours * 3_600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


# JSON


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NoRow("a name twice")
    return found


def _constant(text: str) -> Any:
    raise NoRow(f"no JSON: {text}")


def _checked(node: Any) -> None:
    match node:
        case Number():
            found = re.search(r"[eE][+-]?([0-9]+)$", node)
            if len(node) > NUMBER_MAX or (found and len(found[1].lstrip("0")) > 3) or abs(float(node)) == float("inf"):
                raise NoRow("a number beyond a double")
            if found and int(found[1]) > _EXPONENT_MAX:
                raise NoRow("an exponent beyond all doubles")
        case str():
            if any(0xD800 <= ord(character) <= 0xDFFF for character in node):
                raise NoRow("half of a surrogate pair")
        case dict():
            for name, value in node.items():
                _checked(name)
                if len(name) > NAME_MAX:
                    raise NoRow("a name too long")
                _checked(value)
        case list():
            for value in node:
                _checked(value)


def json_object(value: bytes) -> dict[str, Any]:
    """One object and nothing else, its numbers as `Number`; raises NoRow."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoRow("not UTF-8") from error
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        if token[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in "]}":
            depth -= 1
    if deepest > DEPTH_MAX:
        raise NoRow("nested too deeply")
    try:
        found = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=_constant, object_pairs_hook=_pairs
        )
        _checked(found)
    except ValueError as error:
        raise NoRow("no JSON") from error
    if not isinstance(found, dict):
        raise NoRow("no object")
    return found


def of_json(node: Any, type_: Type, unit: str | None) -> Any:
    """A value of JSON as its declared type; raises NoRow."""
    if node is None:
        return None
    is_text = type(node) is str
    is_number = isinstance(node, Number)
    match type_.word:
        case "STRING":
            return node if is_text else Json(node)
        case word if word in INTEGERS and is_number:
            return integer(node, INTEGERS[word])
        case "BOOLEAN" if isinstance(node, bool):
            return node
        case "DECIMAL" if is_number or is_text:
            return as_decimal(node, type_)
        case "DOUBLE" | "FLOAT" as word if is_number or (
            is_text and re.fullmatch(r"[+-]?(Infinity|INF|Inf)|NaN", node)
        ):
            return as_double(node) if word == "DOUBLE" else as_float(node)
        case "DATE" if is_text:
            return as_date(node)
        case "TIMESTAMP" if is_number or is_text:
            return as_timestamp(node, unit)
        case "BINARY" if is_text:
            return _base64(node)
        case "ARRAY" if isinstance(node, list):
            return [of_json(item, type_.parts[0], unit) for item in node]
        case "MAP" if isinstance(node, dict):
            return {name: of_json(item, type_.parts[0], unit) for name, item in node.items()}
        case "STRUCT" if isinstance(node, dict):
            return {name: of_json(node.get(name), inner, unit) for name, inner in type_.fields}
        case _:
            raise NoRow(f"no {type_.word}: {str(node)[:40]}")


def _base64(text: str) -> bytes:
    if not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        raise NoRow("no base64")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise NoRow("no base64") from error


def json_row(value: bytes | None, schema: Schema, unit: str | None) -> Row:
    if value is None:
        raise NoRow("null value")
    found = json_object(value)
    return {name: of_json(found.get(name), type_, unit) for name, type_ in schema.items()}


# Keys


def of_key(key: bytes | None, kind: str | None, type_: Type, name: str, unit: str | None) -> Any:
    """The key column as Kafka's key has it; None where it holds none."""
    if key is None or kind is None:
        return None
    try:
        if kind == "string":
            text = key.decode("utf-8")
            return of_text(text, type_, unit)
        found = json_object(key)
        payload = found.get("payload")
        within = payload if isinstance(payload, dict) and found.get(name) is None else found
        return of_json(within.get(name), type_, unit)
    except (NoRow, UnicodeDecodeError):
        return None


def completed(row: Row, key: Any, keys: tuple[str, ...], order: tuple[str, ...]) -> Row:
    """A row with its key, which none may lack."""
    found = {**row, keys[0]: key if row[keys[0]] is None else row[keys[0]]}
    for name in (*keys, *order):
        if found[name] is None:
            raise NoRow(f"null in {name}")
    return found


# Comparison


def is_same(expected: Any, found: Any) -> bool:
    """Whether a value of a table is the expected one."""
    match expected:
        case Json():
            return isinstance(found, str) and _is_same_json(expected.tree, _tree(found))
        case Text():
            return isinstance(found, str) and expected.is_said_by(found)
        case float():
            return isinstance(found, float) and (expected == found or (expected != expected and found != found))
        case dict():
            pairs = found.items() if isinstance(found, Mapping) else found
            if not isinstance(found, (Mapping, list)):
                return False
            held = dict(pairs)
            return held.keys() == expected.keys() and all(is_same(expected[name], held[name]) for name in expected)
        case list():
            return isinstance(found, list) and len(found) == len(expected) and all(map(is_same, expected, found))
        case bool() | None:
            return found is expected
        case Decimal():
            return isinstance(found, Decimal) and found == expected
        case _:
            return type(found) is type(expected) and found == expected


def _is_same_json(expected: Any, found: Any) -> bool:
    match expected:
        case Number():
            return isinstance(found, Number) and (expected == found or float(expected) == float(found))
        case dict():
            same = isinstance(found, dict) and expected.keys() == found.keys()
            return same and all(_is_same_json(value, found[name]) for name, value in expected.items())
        case list():
            same = isinstance(found, list) and len(expected) == len(found)
            return same and all(map(_is_same_json, expected, found))
        case _:
            return type(found) is type(expected) and found == expected


_tree = partial(json.loads, parse_int=Number, parse_float=Number, object_pairs_hook=_pairs)


# Lines


def text_of(value: bytes | None) -> str:
    if value is None:
        raise NoRow("null value")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoRow("not UTF-8") from error


def of_text(text: str, type_: Type, unit: str | None) -> Any:
    """A value of a line as its declared type; raises NoRow."""
    match type_.word:
        case "STRING":
            return text
        case word if word in INTEGERS:
            _refuse_unclear(text)
            return integer(re.sub(r"^[+](?=[0-9])", "", text), INTEGERS[word])
        case "BOOLEAN":
            if text.lower() not in ("true", "false"):
                raise NoRow("no boolean")
            return text.lower() == "true"
        case "DECIMAL":
            return as_decimal(text, type_)
        case "DOUBLE":
            return as_double(text)
        case "FLOAT":
            return as_float(text)
        case "DATE":
            return as_date(text)
        case _:
            return as_timestamp(text, unit)


def csv_row(value: bytes | None, schema: Schema, unit: str | None) -> Row:
    """Of a line; what is empty is null. Raises Unclear where programs differ."""
    line = text_of(value).rstrip("\r\n")
    fields = line.split(";")
    if any(character in line for character in '"\\\r\n'):
        raise Unclear
    if len(fields) != len(schema):
        raise NoRow(f"{len(fields)} fields")
    pairs = zip(schema.items(), fields, strict=True)
    return {name: of_text(field, type_, unit) if field else None for (name, type_), field in pairs}


# Debezium


def debezium_row(value: bytes | None, schema: Schema, unit: str) -> Row | None:
    """Of an envelope without its schema; None: it is no change of a row."""
    if value is None:
        return None
    found = json_object(value)
    payload = found.get("payload")
    if isinstance(payload, dict) and payload.get("op") is not None:
        found = payload
    op, row = found.get("op"), found.get("after")
    if op == "m":
        return None
    if op not in ("c", "u", "r") or not isinstance(row, dict):
        raise NoRow("no envelope")
    before, schema_told = found.get("before"), found.get("schema")
    if before is not None or schema_told is not None:
        raise Unclear
    return {name: _of_image(row.get(name), type_, unit) for name, type_ in schema.items()}


def _of_image(node: Any, type_: Type, unit: str) -> Any:
    is_text, is_number = type(node) is str, isinstance(node, Number)
    match type_.word:
        case "DECIMAL" if is_text:
            unscaled = _base64(node)
            if not 1 <= len(unscaled) <= 16:
                raise NoRow("no bytes of a decimal")
            exact = Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-type_.scale, EXACT)
            return as_decimal(f"{exact:f}", type_)
        case "DECIMAL" if isinstance(node, dict):
            raise Unclear
        case "DATE" if is_number or (is_text and re.fullmatch(r"-?[0-9]{1,19}", node)):
            try:
                return date.fromordinal(_EPOCH.date().toordinal() + integer(node, 32))
            except (ValueError, OverflowError) as error:
                raise NoRow("beyond the years 1 to 9999") from error
        case _:
            return of_json(node, type_, unit)
