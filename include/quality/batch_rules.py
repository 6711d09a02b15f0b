"""Rules that judge a batch as a whole: expectations as aggregates and queries of Spark SQL. Pure.

An aggregate costs next to nothing: all of them are computed in one pass. A query is a pass of its own. Great
Expectations itself computes all other rules (`spark_jobs.changes.quality`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.lake.sql import spark_name
from include.pipeline_file.schema_ddl import word_of
from include.protocol.json_data import JsonMapping
from include.quality.row_rules import missing_of_list
from include.quality.sql import BATCH, REFERENCE, NotUnderstood, json_literal, row_condition, within
from include.quality.suite import Rule


@dataclass(frozen=True)
class AggregateRule:
    """A rule about one figure of the batch."""

    rule: Rule
    aggregate: str  # over rows
    condition: str  # on a row: which rows it is about

    def observed(self, among: str | None) -> str:
        """The figure, an aggregate. Args: among: the column that says which rows it is about; None: all."""
        return self.aggregate if among is None else f"({self.aggregate} FILTER (WHERE {among}))"

    def holds(self, among: str | None) -> str:
        """Whether the figure is as expected: a boolean aggregate; null counts as false."""
        expected = _equals if self.rule.type.endswith("_to_equal") else within
        return expected(self.observed(among), self.rule.kwargs)

    @property
    def sees_every_value(self) -> bool:
        """Whether Spark has to tell all values apart for it, which slows down all figures of the same pass."""
        return "DISTINCT" in self.aggregate


@dataclass(frozen=True)
class SchemaRule:
    """A rule about the declared columns: it holds or not, whatever the rows."""

    rule: Rule
    observed: str
    holds: bool


@dataclass(frozen=True)
class Reference:
    """Another table that a query reads."""

    text: str  # as it stands in the query
    table: str  # lake://layer/table
    version: int | None  # None: the newest one; the result says which one it was


@dataclass(frozen=True)
class QueryRule:
    """A rule about rows that should not exist: `query` finds them, in the batch (`{batch}`) and other tables."""

    rule: Rule
    query: str
    references: tuple[Reference, ...]
    condition: str  # on a row: which rows it is about; the query sees no others
    applies: str  # condition: which of these it can judge
    row_weight: str  # aggregate over the query's rows: how many of the batch's rows they stand for


def schema_rule(rule: Rule, types: Mapping[str, str]) -> SchemaRule | None:
    """The rule, judged by the declared types; None if it is not about types. Raises NotUnderstood."""
    if rule.type not in _OF_TYPE:
        return None
    given = rule.kwargs.get(_OF_TYPE[rule.type])
    allowed = given if isinstance(given, list) else [given]
    unknown = [name for name in allowed if name not in _SPARK_TYPES.values()]
    if unknown or not allowed:
        raise NotUnderstood(f"{_OF_TYPE[rule.type]}: {' | '.join(sorted(set(_SPARK_TYPES.values())))}", given)
    observed = _SPARK_TYPES[word_of(types[rule.kwargs["column"]])]
    return SchemaRule(rule, observed, observed in allowed)


def aggregate_rule(rule: Rule) -> AggregateRule | None:
    """The rule as aggregates; None if it is not about one figure. Raises NotUnderstood."""
    kwargs = rule.kwargs
    if rule.type in _OF_TABLE:
        figure = AggregateRule(rule, "count(*)", row_condition(kwargs))
    elif rule.type in _OF_COLUMN:
        aggregate = _OF_COLUMN[rule.type].format(column=spark_name(kwargs["column"]))
        figure = AggregateRule(rule, aggregate, row_condition(kwargs))
    else:
        return None
    figure.holds(None)  # its arguments are looked at now
    return figure


def query_rule(rule: Rule) -> QueryRule | None:
    """The rule as a query for what breaks it; None if it is no rule of that kind. Raises NotUnderstood."""
    kwargs = rule.kwargs
    if rule.type == "unexpected_rows_expectation":
        text = str(kwargs.get("unexpected_rows_query")).strip().rstrip(";")
        found = [Reference(m[0], m[1], int(m[2]) if m[2] else None) for m in REFERENCE.finditer(text)]
        return QueryRule(rule, text, tuple(found), condition="true", applies="true", row_weight="count(*)")
    if rule.type == "expect_column_values_to_be_unique":
        return _duplicates(rule, [kwargs["column"]], f"{spark_name(kwargs['column'])} IS NOT NULL")
    if rule.type == "expect_compound_columns_to_be_unique":
        return _duplicates(rule, rule.columns, f"NOT {missing_of_list(rule)}")
    return None


def _duplicates(rule: Rule, names: Any, applies: str) -> QueryRule:
    columns = ", ".join(map(spark_name, names))
    query = (
        f"SELECT {columns}, count(*) AS _lakemark_rows FROM {BATCH} WHERE {applies} "
        f"GROUP BY {columns} HAVING count(*) > 1"
    )
    return QueryRule(
        rule,
        query,
        references=(),
        condition=row_condition(rule.kwargs),
        applies=applies,
        row_weight="coalesce(sum(_lakemark_rows), 0)",
    )


def _equals(observed: str, kwargs: JsonMapping) -> str:
    return f"({observed} = {json_literal(kwargs.get('value'))})"


_OF_TABLE = ("expect_table_row_count_to_be_between", "expect_table_row_count_to_equal")
_OF_COLUMN = {
    "expect_column_min_to_be_between": "min({column})",
    "expect_column_max_to_be_between": "max({column})",
    "expect_column_mean_to_be_between": "try_avg({column})",
    "expect_column_sum_to_be_between": "try_sum({column})",
    "expect_column_stdev_to_be_between": "stddev_samp({column})",
    "expect_column_unique_value_count_to_be_between": "count(DISTINCT {column})",
}
_OF_TYPE = {"expect_column_values_to_be_of_type": "type_", "expect_column_values_to_be_in_type_list": "type_list"}
_SPARK_TYPES = {  # the words of DDL, as classes of pyspark.sql.types
    "BOOLEAN": "BooleanType",
    "BYTE": "ByteType",
    "TINYINT": "ByteType",
    "SHORT": "ShortType",
    "SMALLINT": "ShortType",
    "INT": "IntegerType",
    "INTEGER": "IntegerType",
    "LONG": "LongType",
    "BIGINT": "LongType",
    "FLOAT": "FloatType",
    "REAL": "FloatType",
    "DOUBLE": "DoubleType",
    "DEC": "DecimalType",
    "DECIMAL": "DecimalType",
    "NUMERIC": "DecimalType",
    "STRING": "StringType",
    "BINARY": "BinaryType",
    "DATE": "DateType",
    "TIMESTAMP": "TimestampType",
    "TIMESTAMP_LTZ": "TimestampType",
    "TIMESTAMP_NTZ": "TimestampNTZType",
    "ARRAY": "ArrayType",
    "MAP": "MapType",
    "STRUCT": "StructType",
}
SCHEMA_RULES = tuple(_OF_TYPE)
AGGREGATE_RULES = (*_OF_TABLE, *_OF_COLUMN)
QUERY_RULES = (
    "unexpected_rows_expectation",
    "expect_column_values_to_be_unique",
    "expect_compound_columns_to_be_unique",
)
