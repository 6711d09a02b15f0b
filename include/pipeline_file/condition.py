"""Which columns a condition in SQL speaks of."""

from __future__ import annotations

import re

_TEXT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)


def columns_in(condition: str) -> frozenset[str]:
    """Their names in small letters. Of a condition that only Spark understands: all words outside of texts."""
    import sqlglot  # it takes a while to load, and most who read pipeline files never ask

    try:
        parsed = sqlglot.parse_one(condition, read="spark", into=sqlglot.exp.Condition)
        return frozenset(column.parts[0].name.lower() for column in parsed.find_all(sqlglot.exp.Column))
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset(re.findall(r"\w+", _TEXT.sub(" ", condition).lower()))
