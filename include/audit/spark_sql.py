"""Translates users' conditions and transforms from Spark's SQL to DuckDB's: only what means the same there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import sqlglot
from sqlglot import exp

from include.audit.report import NotRecomputed
from include.pipeline_file.schema_ddl import DECIMALS, WHOLE, word_of

# What means the same to Spark and to DuckDB. Nothing else is translated: a function that exists in both may round, cut
# or count in another way, and right rows would be called wrong.
_SHARED: tuple[type[exp.Expression], ...] = (
    *(exp.Select, exp.From, exp.Where, exp.Join, exp.Subquery, exp.With, exp.CTE, exp.Union, exp.TableAlias, exp.Table),
    *(exp.Column, exp.Identifier, exp.Alias, exp.Star, exp.Dot, exp.Paren, exp.Tuple, exp.Literal, exp.Null),
    *(exp.Boolean, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Case, exp.If, exp.Coalesce, exp.Nullif),
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Explode, exp.Lateral, exp.Concat, exp.DPipe),
)
# And its operands must be of one kind, or one of the engines would cast them: 'a' = 1, or a FLOAT = 0.1.
_SAME_KIND = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nullif),
)
_OF_WHOLE, _OF_TEXT = (exp.Add, exp.Sub, exp.Mul, exp.Neg), (exp.Concat, exp.DPipe)
_TRUTH = (exp.And, exp.Or, exp.Not, exp.Is, *_SAME_KIND[:10], exp.Boolean)
_EXACT, _TEXT_KIND, _TRUTH_KIND, _NO_KIND = "exact number", "STRING", "BOOLEAN", "null"

Types = Mapping[str, str]  # of columns, as Spark's DDL has them, by their names in lower case


def translated(text: str, what: str, types: Types) -> str:
    """A condition, or a transform's SELECT.

    Args:
        what: where it is from, for the reason. types: of the columns that it may name.

    Raises:
        NotRecomputed: it has an expression that may mean something else to DuckDB.
    """
    try:
        parsed = sqlglot.parse_one(text.strip().rstrip(";"), read="spark")
        for node in parsed.walk():
            if type(node) not in _SHARED or node.args.get("outer") or not _is_of_one_kind(node, types):
                raise NotRecomputed(f"{what}: only Spark is known to compute {_named(node)} as Spark does")
        for node in parsed.walk():
            node.pop_comments()
        return parsed.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError as error:
        raise NotRecomputed(f"{what} cannot be computed outside Spark: {_first(error)}") from error


def _is_of_one_kind(node: exp.Expression, types: Types) -> bool:
    """Whether no engine casts an operand. In a SELECT, what is not known (a field of a struct, a column that it makes)
    is not looked at: its results must have the declared types (`transforming`)."""
    if not isinstance(node, (*_SAME_KIND, *_OF_WHOLE, *_OF_TEXT)):
        return True
    ignored = {_NO_KIND} if node.find_ancestor(exp.Select) is None else {_NO_KIND, None}
    found = {_kind(part, types) for part in _operands(node)} - ignored
    if isinstance(node, exp.Case) and node.this is not None:
        compared = {_kind(part, types) for part in (node.this, *(branch.this for branch in node.args["ifs"]))} - ignored
        if len(compared) > 1 or None in compared:
            return False
    if isinstance(node, _OF_WHOLE):
        return found <= {_EXACT}
    if isinstance(node, _OF_TEXT):
        return found <= {_TEXT_KIND}
    return len(found) <= 1 and None not in found


def _operands(node: exp.Expression) -> Iterable[exp.Expression]:
    """What is compared, or computed with; of a CASE, what it may answer."""
    if isinstance(node, exp.Case):
        answers = [branch.args["true"] for branch in node.args["ifs"]]
        return [*answers, *([node.args["default"]] if node.args.get("default") else [])]
    if isinstance(node, exp.If):
        return [part for part in (node.args.get("true"), node.args.get("false")) if part is not None]
    return [part for part in node.iter_expressions() if isinstance(part, exp.Expression)]


def _kind(node: exp.Expression, types: Types) -> str | None:
    """The kind of a value; None if it is not known, or if the engines may not agree on it."""
    match node:
        case exp.Paren():
            return _kind(node.this, types)
        case exp.Null():
            return _NO_KIND
        case exp.Literal():
            return _TEXT_KIND if node.is_string else _EXACT if re.fullmatch(r"[\d.]+", node.name) else None
        case exp.Column():
            if node.table.lower() in types:  # a field of a struct
                return None
            return _kind_of_type(types.get(node.name.lower()))
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Nullif():
            found = {_kind(part, types) for part in _operands(node)} - {_NO_KIND}
            return next(iter(found), _NO_KIND) if len(found) <= 1 else None
        case _ if isinstance(node, _TRUTH):
            return _TRUTH_KIND
        case _ if isinstance(node, _OF_WHOLE):
            return _EXACT
        case _:
            return _TEXT_KIND if isinstance(node, _OF_TEXT) else None


def _kind_of_type(of: str | None) -> str | None:
    if of is None or "COLLATE" in of.upper():
        return None
    return _EXACT if word_of(of) in (*WHOLE, *DECIMALS) else of.upper()


def _named(node: exp.Expression) -> str:
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    return node.sql("spark", comments=False)[:80]


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
