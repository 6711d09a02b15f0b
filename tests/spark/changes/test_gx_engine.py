"""What Great Expectations computes itself is told like the verdicts of Lakemark's own rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.protocol.errors import TerminalError
from include.quality.judge import GX_RULES, Judge
from include.quality.verdict import RuleResult
from spark_jobs.changes.gx_engine import validate

TYPES = {"n": "BIGINT", "m": "INT", "name": "STRING", "flag": "BOOLEAN"}


def e(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs}


def verdicts(spark: SparkSession, folder: Path, rules: list[dict[str, Any]]) -> list[RuleResult]:
    path = folder / "shop.json"
    path.write_text(json.dumps({"name": "shop", "expectations": rules}))
    judge = Judge.of(path, TYPES, "warn")
    data = [(n, n % 7 if n % 5 else None, f"name {n % 3}", n % 2 == 0) for n in range(60)]
    rows = spark.createDataFrame(data, ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()))
    return [*validate(judge.by_gx, judge.policies, rows)]


BROKEN = [
    e("column_distinct_values_to_be_in_set", column="flag", value_set=[True]),
    e("column_distinct_values_to_contain_set", column="name", value_set=["neither"]),
    e("column_distinct_values_to_equal_set", column="flag", value_set=[True]),
    e(
        "column_kl_divergence_to_be_less_than",
        column="name",
        partition_object={"values": ["x", "y"], "weights": [0.5, 0.5]},
        threshold=0.1,
    ),
    e("column_median_to_be_between", column="m", max_value=-100),
    e("column_most_common_value_to_be_in_set", column="name", value_set=["neither"]),
    e("column_proportion_of_non_null_values_to_be_between", column="m", min_value=0.99),
    e("column_proportion_of_unique_values_to_be_between", column="flag", min_value=0.99),
    e(
        "column_quantile_values_to_be_between",
        column="m",
        quantile_ranges={"quantiles": [0.5], "value_ranges": [[1000, 2000]]},
    ),
    e("column_value_z_scores_to_be_less_than", column="m", threshold=0.1, double_sided=True),
    e("column_values_to_not_be_outliers", column="m", method="iqr", multiplier=0.01),
    e("table_column_count_to_be_between", max_value=2),
    e("table_column_count_to_equal", value=2),
    e("table_columns_to_match_ordered_list", column_list=["n", "m"]),
    e("table_columns_to_match_set", column_set=["n", "m"]),
]


def test_a_rule_of_great_expectations_own_that_breaks_is_told_like_any_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert {rule["type"] for rule in BROKEN} | {"expect_column_to_exist"} == set(GX_RULES)
    found = verdicts(spark, tmp_path, BROKEN)
    assert [result.rule.type for result in found if result.success] == []
    for result in found:
        about_rows = "unexpected_count" in result.result
        assert about_rows == ("element_count" in result.result), result.result
        assert result.figures.endswith("rows break it") == about_rows
        assert result.rule.name in result.values


def test_a_condition_that_fails_on_a_row_says_that_the_rule_is_not_about_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    condition = {"row_condition": "1 / n > 0 AND n < 3", "condition_parser": "spark"}  # n is 0 on one row
    rules = [
        e("column_median_to_be_between", column="n", min_value=1.5, max_value=1.5, **condition),
        e("column_values_to_not_be_outliers", column="n", method="iqr", multiplier=100, **condition),
        e("column_median_to_be_between", column="n", min_value=29.5, max_value=29.5),
    ]
    found = verdicts(spark, tmp_path, rules)
    assert [result.success for result in found] == [True, True, True]
    assert found[1].result["element_count"] == 2


def test_a_rule_that_great_expectations_cannot_compute_is_an_error_and_no_verdict(
    spark: SparkSession, tmp_path: Path
) -> None:
    rule = e("column_distinct_values_to_contain_set", column="flag", value_set=["neither"])
    with pytest.raises(TerminalError, match="could not compute a rule") as refused:
        verdicts(spark, tmp_path, [rule])
    assert "CAST_INVALID_INPUT" in refused.value.evidence
    assert "CAST_INVALID_INPUT" not in refused.value.found
