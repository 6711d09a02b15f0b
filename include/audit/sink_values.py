"""One form for each value, whatever a database's client, JSON or a reader of the table makes of it: so that what a sink
holds can be compared with what the lake holds.

It shares no code with deliveries. `Any` are values of rows.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from include.pipeline_file.schema_ddl import canonical, fields_of, nested, split

OfText = Callable[[str], str]
_TRUE = ("t", "true", "1")
_BAD = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError)


def plain(type_: str, of_text: OfText) -> Callable[[Any], Any]:
    """Makes the form of a column's values; null stays null. It can be hashed.

    Args:
        type_: as Spark's DDL has it. of_text: what a sink makes of a text.

    Raises:
        ForeignValue: by the function: it is no value of the type.
    """

    def make(value: Any) -> Any:
        if value is None:
            return None
        try:
            if nested(type_) is not None and isinstance(value, str):
                value = json.loads(value, parse_float=Decimal)
            found = _plain(value, canonical(type_), of_text)
            return _told(found) if nested(type_) is not None else found
        except _BAD as error:
            raise ForeignValue(str(value)) from error

    return make


class ForeignValue(Exception):
    """A value that no delivery has written: it is of another type."""


def as_it_is(text: str) -> str:
    """A text that a sink keeps as it is."""
    return text


def without_nul(text: str) -> str:
    """A text, as a sink keeps it that has no character NUL."""
    return text.replace("\0", "�")


def as_json(text: str) -> str:
    """A text that a sink keeps as JSON: spaces and the order of keys may differ."""
    return _told(json.loads(text, parse_float=Decimal))


def _plain(value: Any, type_: str, of_text: OfText) -> Any:
    if value is None:
        return None
    match nested(type_):
        case ("STRUCT", inner):
            return {field.name: _plain(value[field.name], field.type, of_text) for field in fields_of(inner)}
        case ("ARRAY", inner):
            return [_plain(one, inner, of_text) for one in value]
        case ("MAP", inner):
            of_keys, of_values = split(inner)
            pairs = value.items() if isinstance(value, dict) else value
            return {str(_plain(key, of_keys, of_text)): _plain(one, of_values, of_text) for key, one in pairs}
    match type_.partition("(")[0]:
        case "BOOLEAN":
            return value in _TRUE if isinstance(value, str) else bool(value)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return int(value)
        case "FLOAT":
            number = float(value)
            return struct.unpack("f", struct.pack("f", number))[0] if isfinite(number) else str(number)
        case "DOUBLE":
            number = float(value)
            return number if isfinite(number) else str(number)
        case "DECIMAL":
            return Decimal(str(value))
        case "BINARY":
            return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
        case "DATE":
            if isinstance(value, datetime):
                return value.date()
            return date.fromisoformat(value) if isinstance(value, str) else value
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo is not None else moment
    return of_text(value if isinstance(value, str) else str(value))


def _told(value: Any) -> str:
    """One text for equal values."""
    return json.dumps(value, sort_keys=True, default=_text)


def _text(value: Any) -> str:
    if not isinstance(value, Decimal):
        return str(value)
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
