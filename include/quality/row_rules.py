"""Rules that split a batch row by row: expectations as conditions of Spark SQL, true for a row that breaks them. Pure.

They judge a row as Great Expectations' own Spark engine does, nulls included: a rule about a column skips rows where it
is null, and a comparison that results in null breaks nothing. The test `tests/spark/changes/test_quality_gx.py`
compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType

from include.lake.sql import spark_name
from include.pipeline_file.schema_ddl import WHOLE
from include.protocol.json_data import JsonMapping
from include.quality.sql import (
    BATCH,
    REFERENCE,
    NotUnderstood,
    is_in,
    json_literal,
    json_literals,
    row_condition,
    within,
)
from include.quality.suite import Rule


@dataclass(frozen=True)
class RowRule:
    """A rule as SQL over the bare names of the columns; none of the three conditions is ever null."""

    rule: Rule
    domain: str  # which rows it is about
    applies: str  # which of these it can judge
    broken: str  # which of these break it
    shown: tuple[str, ...]  # columns whose values are a sample of what it found

    @property
    def counts_missing(self) -> bool:
        """Whether there are rows that it is about and cannot judge."""
        return self.applies != self.domain


def row_rule(rule: Rule, types: Mapping[str, str]) -> RowRule | None:
    """The rule as conditions on a row; None if it is not about single rows.

    Args:
        types: of the columns, as Spark DDL, by name.

    Raises:
        NotUnderstood: one of its arguments makes no sense.
    """
    if rule.type == "unexpected_rows_expectation":
        condition = _where(rule.kwargs.get("unexpected_rows_query"))
        if condition is None:
            return None
        broken = f"coalesce({condition}, false)"
        return RowRule(rule, domain="true", applies="true", broken=broken, shown=tuple(types))
    if rule.type in _ONE_COLUMN:
        return _of_one_column(rule)
    if rule.type in _COLUMN_PAIR:
        a, b = (spark_name(rule.kwargs[name]) for name in ("column_A", "column_B"))
        missing = _IGNORED_PAIRS[_one_of(rule, "ignore_row_if", _IGNORED_PAIRS, "both_values_are_missing")]
        return _of_several(rule, missing.format(a=a, b=b), _COLUMN_PAIR[rule.type](a, b, rule.kwargs))
    if rule.type in _COLUMN_LIST:
        return _of_several(rule, missing_of_list(rule), _COLUMN_LIST[rule.type](rule.columns, rule.kwargs, types))
    return None


def missing_of_list(rule: Rule) -> str:
    """SQL for the rows that a rule about a list of columns skips, by its `ignore_row_if`. Raises NotUnderstood."""
    if len(rule.columns) < 2:
        raise NotUnderstood("a column_list of two columns or more", rule.kwargs.get("column_list"))
    joined = _IGNORED_LISTS[_one_of(rule, "ignore_row_if", _IGNORED_LISTS, "all_values_are_missing")]
    return "(" + joined.join(f"{spark_name(name)} IS NULL" for name in rule.columns) + ")" if joined else "false"


def _of_one_column(rule: Rule) -> RowRule:
    column = spark_name(rule.kwargs["column"])
    domain = f"coalesce({row_condition(rule.kwargs)}, false)"
    judges_nulls = rule.type in ("expect_column_values_to_not_be_null", "expect_column_values_to_be_null")
    applies = domain if judges_nulls else f"({domain} AND {column} IS NOT NULL)"
    expected = _ONE_COLUMN[rule.type](column, rule.kwargs)
    return RowRule(rule, domain=domain, applies=applies, broken=_broken(applies, expected), shown=rule.columns)


def _of_several(rule: Rule, missing: str, expected: str) -> RowRule:
    domain = f"coalesce({row_condition(rule.kwargs)}, false)"
    applies = f"({domain} AND NOT {missing})"
    return RowRule(rule, domain=domain, applies=applies, broken=_broken(applies, expected), shown=rule.columns)


def _broken(applies: str, expected: str) -> str:
    return f"({applies} AND coalesce(NOT {expected}, false))"


def _one_of(rule: Rule, name: str, allowed: JsonMapping, default: str) -> str:
    given = rule.kwargs.get(name) or default
    if given not in allowed:
        raise NotUnderstood(f"{name}: {' | '.join(allowed)}", given)
    return given


def _matches(column: str, kwargs: JsonMapping) -> str:
    return f"({column} RLIKE {json_literal(_text(kwargs, 'regex'))})"


def _matches_list(column: str, kwargs: JsonMapping) -> str:
    patterns = json_literals(kwargs.get("regex_list"))
    if not patterns:
        raise NotUnderstood("a regex_list of one or more", kwargs.get("regex_list"))
    how = kwargs.get("match_on") or "any"
    if how not in ("any", "all"):
        raise NotUnderstood("match_on: any | all", how)
    return "(" + (" OR " if how == "any" else " AND ").join(f"{column} RLIKE {p}" for p in patterns) + ")"


def _length(column: str, kwargs: JsonMapping) -> str:
    return within(f"length({column})", kwargs)


def _text(kwargs: JsonMapping, name: str) -> str:
    if not isinstance(kwargs.get(name), str):
        raise NotUnderstood(f"{name}: text", kwargs.get(name))
    return kwargs[name]


_ONE_COLUMN: dict[str, Callable[[str, JsonMapping], str]] = {
    "expect_column_values_to_not_be_null": lambda column, kwargs: f"({column} IS NOT NULL)",
    "expect_column_values_to_be_null": lambda column, kwargs: f"({column} IS NULL)",
    "expect_column_values_to_be_between": within,
    "expect_column_values_to_be_in_set": lambda column, kwargs: (
        "true" if kwargs.get("value_set") is None else is_in(column, kwargs["value_set"])
    ),
    "expect_column_values_to_not_be_in_set": lambda column, kwargs: f"(NOT {is_in(column, kwargs.get('value_set'))})",
    "expect_column_values_to_match_regex": _matches,
    "expect_column_values_to_not_match_regex": lambda column, kwargs: f"(NOT {_matches(column, kwargs)})",
    "expect_column_values_to_match_regex_list": _matches_list,
    "expect_column_values_to_not_match_regex_list": lambda column, kwargs: (
        f"(NOT {_matches_list(column, {**kwargs, 'match_on': 'any'})})"
    ),
    "expect_column_value_lengths_to_be_between": _length,
    "expect_column_value_lengths_to_equal": lambda column, kwargs: (
        f"(length({column}) = {json_literal(kwargs.get('value'))})"
    ),
}


def _greater(a: str, b: str, kwargs: JsonMapping) -> str:
    return f"({a} >= {b} OR {a} <=> {b})" if kwargs.get("or_equal") else f"({a} > {b})"


def _pair_in_set(a: str, b: str, kwargs: JsonMapping) -> str:
    pairs = kwargs.get("value_pairs_set")
    if not isinstance(pairs, list) or not pairs or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
        raise NotUnderstood("value_pairs_set: a list of pairs", pairs)
    return "(" + " OR ".join(f"({a} <=> {json_literal(x)} AND {b} <=> {json_literal(y)})" for x, y in pairs) + ")"


_COLUMN_PAIR: dict[str, Callable[[str, str, JsonMapping], str]] = {
    "expect_column_pair_values_to_be_equal": lambda a, b, kwargs: f"({a} <=> {b})",
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
}
_IGNORED_PAIRS = {
    "both_values_are_missing": "({a} IS NULL AND {b} IS NULL)",
    "either_value_is_missing": "({a} IS NULL OR {b} IS NULL)",
    "neither": "false",
}


def _sum_is(names: tuple[str, ...], kwargs: JsonMapping, types: Mapping[str, str]) -> str:
    def operand(name: str) -> str:
        value = f"coalesce({spark_name(name)}, 0)"
        return f"CAST({value} AS DECIMAL(38, 0))" if types[name].upper() in WHOLE else value

    return f"({' + '.join(map(operand, names))} = {json_literal(kwargs.get('sum_total'))})"


def _all_equal(names: tuple[str, ...], kwargs: JsonMapping, types: Mapping[str, str]) -> str:
    first, *others = map(spark_name, names)
    return "(" + " AND ".join(f"{first} <=> {other}" for other in others) + ")"


def _all_differ(names: tuple[str, ...], kwargs: JsonMapping, types: Mapping[str, str]) -> str:
    return "(NOT (" + " OR ".join(f"{a} <=> {b}" for a, b in combinations(map(spark_name, names), 2)) + "))"


_COLUMN_LIST: dict[str, Callable[[tuple[str, ...], JsonMapping, Mapping[str, str]], str]] = {
    "expect_multicolumn_sum_to_equal": _sum_is,
    "expect_multicolumn_values_to_be_equal": _all_equal,
    "expect_select_column_values_to_be_unique_within_record": _all_differ,
}
_IGNORED_LISTS = {"all_values_are_missing": " AND ", "any_value_is_missing": " OR ", "never": None}
ROW_RULES = (*_ONE_COLUMN, *_COLUMN_PAIR, *_COLUMN_LIST)


def _where(query: Any) -> str | None:
    """The condition of `SELECT * FROM {batch} WHERE ...`; None for a query that is about more than single rows."""
    if not isinstance(query, str) or BATCH not in query:
        raise NotUnderstood(_QUERY, query)
    text = REFERENCE.sub(_VIEW, query.replace(BATCH, _VIEW)).strip().rstrip(";")
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
        tokens = sqlglot.tokenize(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise NotUnderstood("unexpected_rows_query: SQL that Spark understands", str(error).splitlines()[0]) from error
    if not isinstance(tree, exp.Query):
        raise NotUnderstood(_QUERY, query)
    if (
        REFERENCE.search(query)
        or not isinstance(tree, exp.Select)
        or not tree.is_star
        or {k for k, v in tree.args.items() if v} - _PLAIN
    ):
        return None
    where = tree.args.get("where")
    if where is None or list(where.find_all(exp.AggFunc, exp.Window, exp.Query, exp.Subquery)):
        return None
    alias = next(tree.find_all(exp.Table)).alias_or_name
    of_table = [column for column in where.find_all(exp.Column) if column.table]
    if not of_table:  # as it was written, not as sqlglot would write it
        return f"({text[next(t for t in tokens if t.token_type is TokenType.WHERE).end + 1 :].strip()})"
    if any(column.table not in (alias, _VIEW) for column in of_table):
        return None
    for column in of_table:
        column.set("table", None)
    return f"({where.this.sql(dialect='spark')})"


_QUERY = f"unexpected_rows_query: SELECT ... FROM {BATCH} ..."
_VIEW = "lakemark_batch"
_PLAIN = {"expressions", "from_", "from", "where", "kind"}  # the parts that a query about single rows may have
