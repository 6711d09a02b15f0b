"""What a record is, to the documentation and to a careful reader: a row of these values, or nothing that one can read.

Plain Python. Where the documentation is silent, only what everybody reads alike is a row. Each format has
an oracle in a file of its own.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from tests.hostile.types import INTEGERS, Type

NUMBER_MAX = 1_000  # characters
_UNITS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=2_000, Emax=999_999, Emin=-999_999)


class NoRow(Exception):
    """The record is for the quarantine; says why, for people who read a failed test."""


class Unclear(Exception):
    """Two careful readers would differ. The only check is that the record makes nothing fail."""


class Doubtful(Unclear):
    """A careful reader may refuse the record; a reader that accepts it makes this row (or, of a part, this value)."""

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
    """Raises Unclear for white space around a value, and for digits of other scripts."""
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
        return EPOCH + timedelta(microseconds=micros)
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
    seconds = (day.toordinal() - EPOCH.date().toordinal()) * 86_400 + hour * 3_600 + minute * 60 + second
    return _at((seconds - _offset(found[8] or "Z")) * 1_000_000 + micros)


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise NoRow(f"no offset: {zone}")
    return (hours * 3_600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def completed(row: Row, key: Any, keys: tuple[str, ...], order: tuple[str, ...]) -> Row:
    """A row with its key; raises NoRow if a key or an order column is null."""
    found = {**row, keys[0]: key if row[keys[0]] is None else row[keys[0]]}
    for name in (*keys, *order):
        if found[name] is None:
            raise NoRow(f"null in {name}")
    return found


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
