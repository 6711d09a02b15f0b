"""What a record of JSON, and a key of Kafka, is."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from functools import partial
from typing import Any

from tests.hostile.oracle import (
    NUMBER_MAX,
    Json,
    NoRow,
    Number,
    Row,
    as_date,
    as_decimal,
    as_double,
    as_float,
    as_timestamp,
    integer,
    of_text,
)
from tests.hostile.types import INTEGERS, Schema, Type

DEPTH_MAX, NAME_MAX = 1_000, 50_000  # of JSON: levels, characters
_EXPONENT_MAX = 400  # of a number: larger exponents are set aside unread
sys.setrecursionlimit(max(20_000, sys.getrecursionlimit()))  # a level of JSON is a call


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
            return from_base64(node)
        case "ARRAY" if isinstance(node, list):
            return [of_json(item, type_.parts[0], unit) for item in node]
        case "MAP" if isinstance(node, dict):
            return {name: of_json(item, type_.parts[0], unit) for name, item in node.items()}
        case "STRUCT" if isinstance(node, dict):
            return {name: of_json(node.get(name), inner, unit) for name, inner in type_.fields}
        case _:
            raise NoRow(f"no {type_.word}: {str(node)[:40]}")


def from_base64(text: str) -> bytes:
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
    """The key column's value in Kafka's key; None if there is none."""
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


parsed = partial(json.loads, parse_int=Number, parse_float=Number, object_pairs_hook=_pairs)
