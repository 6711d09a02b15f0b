"""Finds the columns that a condition in SQL names."""

from __future__ import annotations

import re

_TEXT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)


def columns_in(condition: str) -> frozenset[str]:
    """The names of the columns in a condition, in lower case. If only Spark understands it: all words outside texts."""
    import sqlglot  # it loads slowly, and most readers of pipeline files do not need it

    try:
        parsed = sqlglot.parse_one(condition, read="spark", into=sqlglot.exp.Condition)
        return frozenset(column.parts[0].name.lower() for column in parsed.find_all(sqlglot.exp.Column))
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset(re.findall(r"\w+", _TEXT.sub(" ", condition).lower()))
