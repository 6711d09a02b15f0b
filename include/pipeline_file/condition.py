"""Finds the columns that a condition in SQL names."""

from __future__ import annotations

import re

_TEXT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)


# Spark computes these where no column has the name.
_WITHOUT_BRACKETS = {"current_date", "current_time", "current_timestamp", "current_user", "session_user", "user"}


def columns_in(condition: str) -> frozenset[str]:
    """The names of the columns in a condition, in lower case. If only Spark understands it: all words outside texts."""
    names = names_in(condition)
    if names is None:
        return frozenset(re.findall(r"\w+", _TEXT.sub(" ", condition).lower()))
    return frozenset(name.lower() for name in names)


def names_in(condition: str) -> tuple[str, ...] | None:
    """The names of the columns in a condition, as written, each once; None if only Spark understands it."""
    if not condition:
        return ()
    import sqlglot  # it loads slowly, and most readers of pipeline files do not need it

    try:
        parsed = sqlglot.parse_one(condition, read="spark", into=sqlglot.exp.Condition)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    names = (column.parts[0].name for column in parsed.find_all(sqlglot.exp.Column, bfs=False))
    return tuple(dict.fromkeys(name for name in names if name.lower() not in _WITHOUT_BRACKETS))
