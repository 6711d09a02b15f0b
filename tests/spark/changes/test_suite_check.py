"""A suite that Spark cannot compute is refused by its rule's name, before any row is set aside for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.pipeline_file.schema_ddl import Column
from include.protocol.errors import SuiteError
from include.quality.judge import Judge
from spark_jobs.changes.suite_check import verify_suite

COLUMNS = [
    Column("id", "BIGINT"),
    Column("name", "STRING"),
    Column("price", "DECIMAL(12, 2)"),
    Column("day", "DATE"),
    Column("tags", "ARRAY<STRING>"),
    Column("odd name", "DOUBLE"),
]
NONSENSE = "id > > 3"


def verify(spark: SparkSession, folder: Path, *rules: dict[str, Any]) -> None:
    path = folder / "shop.json"
    path.write_text(json.dumps({"name": "shop", "expectations": list(rules)}))
    verify_suite(spark, Judge.of(path, {column.name: column.type for column in COLUMNS}, "warn"), COLUMNS)


def rule(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs}


def of_rows(query: str) -> dict[str, Any]:
    return {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}


def where(condition: str) -> dict[str, str]:
    return {"row_condition": condition, "condition_parser": "spark"}


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (rule("column_values_to_match_regex", column="name", regex="("), "rlike"),
        (rule("column_values_to_not_match_regex_list", column="name", regex_list=["a", "[b"]), "rlike"),
        (rule("column_values_to_be_between", column="id", min_value="abc"), "CAST_INVALID_INPUT"),
        (rule("column_values_to_be_between", column="day", min_value="soon"), "CAST_INVALID_INPUT"),
        (rule("column_values_to_be_between", column="tags", min_value=3), "DATATYPE_MISMATCH"),
        (rule("column_max_to_be_between", column="id", max_value="abc"), "CAST_INVALID_INPUT"),
        (rule("column_values_to_not_be_null", column="id", **where(NONSENSE)), "PARSE_SYNTAX_ERROR"),
        (rule("column_values_to_match_regex", column="name", regex="(", **where("1 / id > 0")), "rlike"),
        (rule("column_min_to_be_between", column="id", min_value=1, **where("nosuch(id)")), "UNRESOLVED_ROUTINE"),
        (rule("column_median_to_be_between", column="id", min_value=1, **where("nosuch(id)")), "UNRESOLVED_ROUTINE"),
        (of_rows("SELECT * FROM {batch} WHERE name + 1"), "DATATYPE_MISMATCH"),
        (of_rows("SELECT nosuch FROM {batch} GROUP BY nosuch"), "UNRESOLVED_COLUMN"),
    ],
)
def test_what_spark_cannot_compute_is_the_suites_error(
    spark: SparkSession, tmp_path: Path, wrong: dict[str, Any], found: str
) -> None:
    good = rule("column_values_to_not_be_null", column="id")
    named = {**wrong, "meta": {"lakemark": {"name": "the wrong one"}}}
    with pytest.raises(SuiteError, match=r"shop\.json, rule the wrong one") as refused:
        verify(spark, tmp_path, good, named)
    assert found in refused.value.found


def test_what_fails_on_some_rows_only_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """Here on the row that Spark is asked about: it divides by zero there."""
    verify(
        spark,
        tmp_path,
        of_rows("SELECT * FROM {batch} WHERE 1 / id > 5"),
        of_rows("SELECT name FROM {batch} GROUP BY name HAVING sum(1 / id) > 5"),
        rule("column_values_to_match_regex", column="name", regex="^a", **where("1 / id > 0")),
        rule("column_mean_to_be_between", column="odd name", min_value=0, **where("1 / id > 0")),
        rule("column_values_to_be_between", column="price", min_value=0.5, max_value=10**30),
        rule("column_values_to_be_between", column="day", min_value="2026-01-01"),
        rule("column_values_to_be_in_set", column="name", value_set=["5", 3]),
        rule("column_values_to_not_be_null", column="tags"),
        rule("multicolumn_sum_to_equal", column_list=["id", "odd name"], sum_total=3),
    )
