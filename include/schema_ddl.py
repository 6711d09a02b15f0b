"""Spark's schema DDL, as far as its columns go: names and types, without a JVM.

Spark itself parses the same string in the job; here it is read so that a wrong one is found when the file is checked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SIMPLE = frozenset(
    (
        *("BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT"),
        *("FLOAT", "REAL", "DOUBLE", "DEC", "DECIMAL", "NUMERIC"),
        *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    )
)
_NESTED = ("ARRAY", "MAP", "STRUCT")
_COLUMN = re.compile(r"^(?:`(?P<quoted>[^`]+)`|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))\s+(?P<type>.+)$", re.DOTALL)


class SchemaError(ValueError):
    """The DDL string is not understood; the message says what is allowed."""


class Column(NamedTuple):
    name: str
    type: str  # as written, without NOT NULL and COMMENT


def parse_ddl(ddl: str) -> tuple[Column, ...]:
    """The columns of `a BIGINT, b STRUCT<c: STRING>`; raises SchemaError."""
    columns = tuple(_column(part) for part in _split(ddl))
    if not columns:
        raise SchemaError("at least one column, like `id BIGINT`")
    names = [column.name.lower() for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"every column once (Spark ignores case); more than once: {', '.join(twice)}")
    return columns


def _column(text: str) -> Column:
    match = _COLUMN.match(text.strip())
    if match is None:
        raise SchemaError(f"`NAME TYPE` for every column, not {text.strip()!r}")
    type_ = re.sub(r"\s+(NOT\s+NULL|COMMENT\s+.*)$", "", match["type"].strip(), flags=re.IGNORECASE | re.DOTALL)
    word = re.split(r"[\s(<]", type_, maxsplit=1)[0].upper()
    if word in _NESTED:
        if not re.fullmatch(rf"{word}\s*<.+>", type_, flags=re.IGNORECASE | re.DOTALL):
            raise SchemaError(f"{word}<...> for the type of {match['quoted'] or match['plain']}, not {type_!r}")
    elif word not in _SIMPLE or not re.fullmatch(r"\w+(\s*\(\s*\d+\s*(,\s*\d+\s*)?\))?", type_):
        allowed = ", ".join(sorted(_SIMPLE)) + ", ARRAY<...>, MAP<...>, STRUCT<...>"
        raise SchemaError(f"a type for {match['quoted'] or match['plain']} among {allowed}; not {type_!r}")
    return Column(match["quoted"] or match["plain"], type_)


def _split(ddl: str) -> list[str]:
    """Splits at the commas outside <>, (), `` and ''."""
    parts, depth, quote, start = [], 0, "", 0
    for n, character in enumerate(ddl):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(ddl[start:n])
            start = n + 1
    if depth or quote:
        raise SchemaError("as many closing as opening brackets and quotes")
    parts.append(ddl[start:])
    return [part for part in parts if part.strip()]
