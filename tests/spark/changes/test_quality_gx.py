"""A second opinion: every rule says of the same data what Great Expectations itself says."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.installation.stack import Stack
from include.quality.gx_context import gx_context, to_expectation
from include.quality.judge import Judge
from include.quality.row_rules import RowRule, row_rule
from include.quality.suite import Rule
from include.quality.verdict import RuleResult
from spark_jobs.changes import quality
from tests.conftest import world_in
from tests.support.world import World

TYPES = {
    "n": "BIGINT",
    "m": "INT",
    "x": "DOUBLE",
    "price": "DECIMAL(12, 2)",
    "name": "STRING",
    "code": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP",
    "flag": "BOOLEAN",
}
ROWS = 180  # Great Expectations lists 200 values at most
NAMES = ["", "a", "ab", "Abc", "a1", "1a", "ä", "it's", "back\\slash", "line\nbreak", " a ", "a%b", "null", "☃☃☃"]


def a_row(chance: random.Random) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return (
        maybe(chance.choice([0, 1, -1, 5, 10, 11, 2**31, -(2**40), chance.randint(-20, 20)])),
        maybe(chance.choice([0, 1, 5, 10, chance.randint(-20, 20)])),
        maybe(chance.choice([0.0, -0.0, 0.1, 10.0, 1e300, math.nan, math.inf, -math.inf, chance.uniform(-20, 20)])),
        maybe(Decimal(chance.randint(-2000, 2000)) / 100),
        maybe(chance.choice(NAMES)),
        maybe(chance.choice(NAMES)),
        maybe(date(2026, 1, 1) + timedelta(days=chance.randint(-3, 3))),
        maybe(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=chance.randint(-30, 30))),
        maybe(chance.choice([True, False])),
    )


@pytest.fixture(scope="module")
def world_of_module(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_in(tmp_path_factory.mktemp("gx"), stack)


@pytest.fixture(scope="module")
def spark(world_of_module: World) -> Iterator[SparkSession]:
    with world_of_module.session() as spark:
        yield spark


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    chance = random.Random(20261121)
    data = [a_row(chance) for _ in range(ROWS)]
    schema = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    return spark.createDataFrame(data, schema).localCheckpoint(eager=True)


def e(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs}


def comparison(column: str, operator: str, parameter: Any) -> dict[str, Any]:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


BETWEEN, PAIR = "column_values_to_be_between", "column_pair_values_a_to_be_greater_than_b"
ROW_RULES = [
    e("column_values_to_not_be_null", column="name"),
    e("column_values_to_be_null", column="name"),
    e(BETWEEN, column="n", min_value=0, max_value=10),
    e(BETWEEN, column="n", min_value=0, max_value=10, strict_min=True, strict_max=True),
    e(BETWEEN, column="n", min_value=0, mostly=0.5),
    e(BETWEEN, column="x", min_value=0.1, max_value=10),
    e(BETWEEN, column="x", max_value=0, strict_max=True),
    e(BETWEEN, column="price", min_value=-0.1, max_value=9.99),
    e(BETWEEN, column="day", min_value="2026-01-01", max_value="2026-01-02"),
    e(BETWEEN, column="at", min_value="2025-12-31T12:00:00", max_value="2026-01-01T06:00:00"),
    e(BETWEEN, column="n", min_value=1, row_condition="m > 3", condition_parser="spark"),
    e(BETWEEN, column="n", min_value=1, row_condition=comparison("name", "==", "a")),
    e(
        "column_values_to_not_be_null",
        column="code",
        row_condition={
            "type": "or",
            "conditions": [
                {"type": "nullity", "column": {"name": "m"}, "is_null": True},
                comparison("name", "IN", ["a", "it's"]),
            ],
        },
    ),
    e("column_values_to_be_in_set", column="name", value_set=["a", "it's", "back\\slash", "line\nbreak", "☃☃☃"]),
    e("column_values_to_be_in_set", column="n", value_set=[0, 1, 5]),
    e("column_values_to_be_in_set", column="n", value_set=[]),
    e("column_values_to_be_in_set", column="price", value_set=[1.5, 2, 0.01]),
    e("column_values_to_not_be_in_set", column="name", value_set=["", "null"]),
    e("column_values_to_match_regex", column="name", regex="^[a-z]"),
    e("column_values_to_match_regex", column="name", regex=r"\d"),
    e("column_values_to_match_regex", column="name", regex=r"\\"),
    e("column_values_to_not_match_regex", column="name", regex="'|%"),
    e("column_values_to_match_regex_list", column="name", regex_list=["^a", "b$"], match_on="any"),
    e("column_values_to_match_regex_list", column="name", regex_list=["^a", "b$"], match_on="all"),
    e("column_values_to_not_match_regex_list", column="name", regex_list=["^a", "b$"]),
    e("column_value_lengths_to_be_between", column="name", min_value=1, max_value=3),
    e("column_value_lengths_to_be_between", column="name", min_value=1, max_value=3, strict_max=True),
    e("column_value_lengths_to_equal", column="name", value=3),
    e("column_pair_values_to_be_equal", column_A="name", column_B="code"),
    e("column_pair_values_to_be_equal", column_A="n", column_B="m", ignore_row_if="neither"),
    e("column_pair_values_to_be_equal", column_A="n", column_B="m", ignore_row_if="either_value_is_missing"),
    e(PAIR, column_A="n", column_B="m"),
    e(PAIR, column_A="n", column_B="m", or_equal=True),
    e(PAIR, column_A="n", column_B="m", or_equal=True, ignore_row_if="neither"),
    e("column_pair_values_to_be_in_set", column_A="name", column_B="flag", value_pairs_set=[["a", True], ["", False]]),
    e("multicolumn_sum_to_equal", column_list=["n", "m"], sum_total=10),
    e("multicolumn_sum_to_equal", column_list=["n", "m"], sum_total=10, ignore_row_if="any_value_is_missing"),
    e("multicolumn_values_to_be_equal", column_list=["name", "code"]),
    e("select_column_values_to_be_unique_within_record", column_list=["n", "m", "price"]),
    e("select_column_values_to_be_unique_within_record", column_list=["n", "m"], ignore_row_if="never"),
    {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n > m AND name RLIKE '^a'"},
    },
]
BATCH_RULES = [
    e("table_row_count_to_be_between", min_value=1, max_value=1000),
    e("table_row_count_to_equal", value=3),
    e("column_min_to_be_between", column="n", min_value=0),
    e("column_max_to_be_between", column="m", max_value=20),
    e("column_max_to_be_between", column="m", max_value=20, strict_max=True),
    e("column_max_to_be_between", column="m", row_condition="m < 5", condition_parser="spark", max_value=4),
    e("column_mean_to_be_between", column="m", min_value=-5, max_value=8),
    e("column_sum_to_be_between", column="m", min_value=0),
    e("column_stdev_to_be_between", column="m", min_value=1, max_value=20),
    e("column_unique_value_count_to_be_between", column="name", min_value=14, max_value=14),
    e("column_values_to_be_unique", column="name"),
    e("column_values_to_be_unique", column="name", mostly=0.1),
    e("compound_columns_to_be_unique", column_list=["name", "n"]),
    e("compound_columns_to_be_unique", column_list=["name", "n"], ignore_row_if="never"),
    e("column_values_to_be_of_type", column="n", type_="LongType"),
    e("column_values_to_be_of_type", column="n", type_="IntegerType"),
    e("column_values_to_be_in_type_list", column="price", type_list=["DoubleType", "DecimalType"]),
]


def ours(tmp_path: Path, spark: SparkSession, world: World, rows: DataFrame, rules: list[dict]) -> list[RuleResult]:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"name": "all", "expectations": rules}))
    judge = Judge.of(path, TYPES, "warn")
    judged = rows.withColumn(
        quality.BROKEN, quality.broken(judge, F.lit(True), always=F.monotonically_increasing_id() >= 0)
    )
    found = quality.judgement(spark, world.settings, judge, judged, rows, quality.BROKEN)
    return list(found.results)


def theirs(rows: DataFrame, rules: list[Rule]) -> dict[str, Any]:
    """Great Expectations' own results, by the rules' names."""
    import great_expectations as gx

    context = gx_context()
    batch = (
        context.data_sources.add_spark("s", persist=False)
        .add_dataframe_asset("a")
        .add_batch_definition_whole_dataframe("b")
        .get_batch({"dataframe": rows})
    )
    named = [replace(rule, config={**rule.config, "meta": {"name": rule.name}}) for rule in rules]
    suite = gx.ExpectationSuite("s", expectations=[to_expectation(rule) for rule in named])
    results = {r.expectation_config.meta["name"]: r for r in batch.validate(suite, result_format="COMPLETE").results}
    for result in results.values():
        assert not result.exception_info.get("raised_exception"), result.exception_info
    return results


def split(rows: DataFrame, rule: RowRule) -> Counter[tuple[str, ...]]:
    """The values of the rows that break a rule, as our condition splits them."""
    broken = rows.where(rule.broken).select(*rule.shown).collect()
    return Counter(tuple(map(str, row)) for row in broken)


def their_split(unexpected: list[Any], names: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """The same for Great Expectations' list: values, tuples or dicts, depending on the rule's number of columns."""

    def values(found: Any) -> tuple[Any, ...]:
        if len(names) == 1:
            return (found,)
        return tuple(found[name] for name in names) if isinstance(found, dict) else tuple(found)

    return Counter(tuple(map(str, values(found))) for found in unexpected)


def assert_same(our: RuleResult, their: Any) -> None:
    about, result = f"{our.rule.name} {dict(our.rule.kwargs)}", their.to_json_dict()["result"]
    assert our.success == their.success, about
    for name in ("element_count", "unexpected_count", "missing_count"):
        if name in result and name in our.result:
            assert our.result[name] == result[name], (about, name)
    if "unexpected_count" not in our.result:
        assert our.result["observed_value"] == pytest.approx(result["observed_value"]), about
    elif our.rule.type == "unexpected_rows_expectation":
        assert our.unexpected == result["observed_value"], about


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_rule_says_what_great_expectations_says(
    spark: SparkSession, world_of_module: World, rows: DataFrame, tmp_path: Path, every: int
) -> None:
    row_rules, batch_rules = ROW_RULES[::every], BATCH_RULES[::every]
    found = ours(tmp_path, spark, world_of_module, rows, [*row_rules, *batch_rules])
    assert len(found) == len(row_rules) + len(batch_rules)
    theirs_by_name = theirs(rows, [result.rule for result in found])
    compared = 0
    for result in found:
        their = theirs_by_name[result.rule.name]
        assert_same(result, their)
        condition = row_rule(result.rule, TYPES)
        if condition is not None and "unexpected_list" in their.result:
            names = condition.shown
            assert split(rows, condition) == their_split(their.result["unexpected_list"], names), result.rule
            compared += 1
    assert compared == sum("query" not in str(rule) for rule in row_rules)
    broken = [r.unexpected for r in found[: len(row_rules)]]
    assert sum(count > 0 for count in broken) > len(row_rules) * 0.9  # the data makes them say something


def test_rules_that_great_expectations_computes_itself(
    spark: SparkSession, world_of_module: World, rows: DataFrame, tmp_path: Path
) -> None:
    rules = [
        e("column_median_to_be_between", column="m", min_value=-100, max_value=100),
        e("column_distinct_values_to_be_in_set", column="flag", value_set=[True]),
    ]
    found = ours(tmp_path, spark, world_of_module, rows, rules)
    assert [r.success for r in found] == [True, False]
    assert found[0].result["observed_value"] == pytest.approx(rows.selectExpr("median(m)").first()[0])
