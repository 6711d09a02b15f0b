"""Translates what users write in Spark's SQL, conditions and transforms, to DuckDB's."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from include.audit.report import NotRecomputed

# What means the same to Spark and to DuckDB. Nothing else is translated: a function that exists in both may round, cut
# or count in another way, and right rows would be called wrong.
_SHARED: tuple[type[exp.Expression], ...] = (
    *(exp.Select, exp.From, exp.Where, exp.Join, exp.Subquery, exp.With, exp.CTE, exp.Union, exp.TableAlias, exp.Table),
    *(exp.Column, exp.Identifier, exp.Alias, exp.Star, exp.Dot, exp.Paren, exp.Tuple, exp.Literal, exp.Null),
    *(exp.Boolean, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Case, exp.If, exp.Coalesce, exp.Nullif),
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Explode, exp.Lateral, exp.Concat, exp.DPipe),
)


def translated(text: str, what: str) -> str:
    """A condition, or a transform's SELECT.

    Args:
        what: where it is from, for the reason.

    Raises:
        NotRecomputed: it has an expression that may mean something else to DuckDB.
    """
    try:
        parsed = sqlglot.parse_one(text.strip().rstrip(";"), read="spark")
        for node in parsed.walk():
            if type(node) not in _SHARED or node.args.get("outer"):
                raise NotRecomputed(f"{what}: only Spark is known to compute {_named(node)} as Spark does")
        for node in parsed.walk():
            node.pop_comments()
        return parsed.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError as error:
        raise NotRecomputed(f"{what} cannot be computed outside Spark: {_first(error)}") from error


def _named(node: exp.Expression) -> str:
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    return node.sql("spark", comments=False)[:80]


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
