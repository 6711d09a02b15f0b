"""Finds the columns that a condition in SQL names."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from functools import lru_cache

_TEXT = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)


_DEPTH_MAX = 10
_UNITS = {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}
# Spark computes these where no column has the name.
_WITHOUT_BRACKETS = {"current_date", "current_time", "current_timestamp", "current_user", "session_user", "user"}


def columns_in(condition: str) -> frozenset[str]:
    """The names of the columns in a condition, in lower case. If only Spark understands it: all words outside texts."""
    names = names_in(condition)
    if names is None:
        return frozenset(re.findall(r"\w+", _TEXT.sub(" ", condition).lower()))
    return frozenset(name.lower() for name in names)


@lru_cache(maxsize=1_000)  # several readers of a file ask, each for its own reason
def names_in(condition: str) -> tuple[str, ...] | None:
    """The names of the columns in a condition, as written, each once; None if only Spark understands it."""
    if not condition:
        return ()
    if _depth(condition) > _DEPTH_MAX:
        return None  # the parser's time doubles with each level of some words
    import sqlglot  # it loads slowly, and most readers of pipeline files do not need it
    from sqlglot import exp

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings quote the condition
    try:
        parsed = sqlglot.parse_one(condition, read="spark", into=exp.Condition)
    except Exception:  # it knows less than Spark, and is not written for hostile texts
        return None
    if parsed.find(exp.Query):
        return None  # its columns may be those of another table
    own = {name.name.lower() for one in parsed.find_all(exp.Lambda) for name in one.expressions}
    names = (
        column.parts[0].name
        for column in parsed.find_all(exp.Column, bfs=False)
        if not (isinstance(column.parent, exp.Collate) and column.arg_key == "expression")
    )
    return tuple(dict.fromkeys(name for name in names if name.lower() not in own | _WITHOUT_BRACKETS | _UNITS))


def names_beyond(condition: str, known: Iterable[str]) -> list[str]:
    """The names in a condition that are none of these columns, as written. Empty if only Spark understands it."""
    there = {name.lower() for name in known}
    return [name for name in names_in(condition) or () if name.lower() not in there]


def _depth(text: str) -> int:
    """How deep the brackets of a text are."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        deepest = max(deepest, depth)
    return deepest
