"""Suites: what is read, what is refused and how, and what follows from figures. Needs neither Spark nor GX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from include.protocol.errors import QualityGate, SuiteError
from include.quality.judge import Judge
from include.quality.row_rules import row_rule
from include.quality.sql import NotUnderstood, json_literal, row_condition
from include.quality.suite import Rule, RulePolicy, Suite
from include.quality.verdict import Ceiling, RuleResult, Verdict, result_of_figure, result_of_rows, verify_gate

TYPES = {"id": "BIGINT", "name": "STRING", "price": "DECIMAL(12, 2)", "at": "TIMESTAMP"}


def a_suite(folder: Path, *rules: dict[str, Any]) -> Path:
    path = folder / "shop.json"
    path.write_text(json.dumps({"name": "shop", "expectations": list(rules)}))
    return path


def a_rule(kind: str, on_fail: str | None = None, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs, "meta": {"lakemark": {"on_fail": on_fail}} if on_fail else {}}


def judge(folder: Path, *rules: dict[str, Any], default: RulePolicy = "quarantine") -> Judge:
    return Judge.of(a_suite(folder, *rules), TYPES, default)


def test_rules_are_named_by_type_and_columns_and_never_twice_the_same(tmp_path: Path) -> None:
    between = a_rule("column_values_to_be_between", column="id", min_value=1)
    named = {**between, "meta": {"lakemark": {"name": "positive id"}}}
    second = {**between, "meta": {"lakemark": {"name": "column_values_to_be_between(id) #2"}}}
    suite = Suite.load(a_suite(tmp_path, between, second, between, named))
    assert [r.name for r in suite.rules] == [
        "column_values_to_be_between(id)",
        "column_values_to_be_between(id) #2",
        "column_values_to_be_between(id) #3",
        "positive id",
    ]


def test_a_suite_has_the_same_fingerprint_however_it_is_laid_out(tmp_path: Path) -> None:
    path = a_suite(tmp_path, a_rule("column_values_to_not_be_null", column="id"))
    first = Suite.load(path).fingerprint
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4, sort_keys=True))
    assert Suite.load(path).fingerprint == first
    a_suite(tmp_path, a_rule("column_values_to_not_be_null", column="name"))
    assert Suite.load(path).fingerprint != first


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        ("{", "file", "Expecting property name"),
        ('{"name": "x"}', "expectations", "none"),
        ('{"expectations": [{"kwargs": {}}]}', "expectation 0", '{"kwargs": {}}'),
        ('{"expectations": [{"type": "t", "meta": {"lakemark": {"on_fail": "explode"}}}]}', "on_fail", "'explode'"),
        ('{"expectations": [{"type": "t", "meta": {"lakemark": {"onfail": "warn"}}}]}', "meta.lakemark", "onfail"),
        ('{"expectations": [{"type": "t", "kwargs": {"mostly": "abc"}}]}', "kwargs.mostly", '"abc"'),
        ('{"expectations": [{"type": "t", "kwargs": {"mostly": true}}]}', "kwargs.mostly", "true"),
        ('{"expectations": [{"type": "t", "kwargs": {"mostly": NaN}}]}', "kwargs.mostly", "NaN"),
        ('{"expectations": [{"type": "t", "kwargs": {"mostly": {"$PARAMETER": "now()"}}}]}', "kwargs.mostly", "now()"),
        ('{"expectations": [{"type": "t", "kwargs": {"column": 5}}]}', "kwargs.column", "5"),
        ('{"expectations": [{"type": "t", "kwargs": {"column_list": [["id"], "b"]}}]}', "column_list", '[["id"], "b"]'),
        ('{"expectations": [{"type": "t", "kwargs": {"ignore_row_if": ["x"]}}]}', "ignore_row_if", '["x"]'),
        ('{"expectations": [{"type": "t", "kwargs": {"strict_min": "yes"}}]}', "strict_min", '"yes"'),
    ],
)
def test_what_is_no_suite_is_refused_with_file_and_place(tmp_path: Path, text: str, where: str, found: str) -> None:
    path = tmp_path / "shop.json"
    path.write_text(text)
    with pytest.raises(SuiteError) as refused:
        Suite.load(path)
    assert str(path) in refused.value.where
    assert where in refused.value.where
    assert found in refused.value.found


def test_a_suite_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    a_suite(tmp_path)
    with pytest.raises(SuiteError, match=r"no file; in .* are: shop"):
        Suite.load(tmp_path / "shopp.json")


@pytest.mark.parametrize(
    ("rule", "expected", "found"),
    [
        (a_rule("column_values_to_be_betwen", column="id"), "expect_column_values_to_be_between", "betwen"),
        (a_rule("column_values_to_not_be_null", column="nam"), "did you mean name?", "nam"),
        (a_rule("column_values_to_be_between", column="id"), "min_value, max_value or both", "neither"),
        (a_rule("column_values_to_match_regex", column="name"), "regex: text", "None"),
        (a_rule("column_values_to_not_be_null"), "a value for column", "none"),
        (a_rule("column_pair_values_to_be_equal", column_A="id", column_B="id", ignore_row_if="x"), "neither", "x"),
        (a_rule("table_row_count_to_equal", "quarantine", value=3), "fail | warn", "quarantine"),
        (
            a_rule("column_values_to_be_between", column="at", min_value={"$PARAMETER": "yesterday"}),
            "now() - timedelta",
            "yesterday",
        ),
        (
            {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "SELECT 1"}},
            "{batch}",
            "SELECT 1",
        ),
    ],
)
def test_a_rule_that_makes_no_sense_says_what_would(
    tmp_path: Path, rule: dict[str, Any], expected: str, found: str
) -> None:
    with pytest.raises(SuiteError) as refused:
        judge(tmp_path, rule)
    assert expected in refused.value.expected
    assert found in refused.value.found


def test_a_rule_without_a_policy_has_its_severitys_or_the_pipelines(tmp_path: Path) -> None:
    null = a_rule("column_values_to_not_be_null", column="id")
    rules = [
        null,
        {**null, "severity": "warning"},
        {**null, "meta": {"lakemark": {"on_fail": "fail"}}, "severity": "info"},
        a_rule("table_row_count_to_equal", value=3),
    ]
    assert list(judge(tmp_path, *rules).policies.values()) == ["quarantine", "warn", "fail", "fail"]
    assert list(judge(tmp_path, *rules, default="warn").policies.values()) == ["warn", "warn", "fail", "warn"]


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM {batch} WHERE price > 3 AND name RLIKE '^a\\\\d'", "(price > 3 AND name RLIKE '^a\\\\d')"),
        ("select * from {batch} b where b.price is null;", "(price IS NULL)"),
        ("SELECT * FROM {batch} WHERE id IN (SELECT id FROM {lake://silver/x})", None),
        ("SELECT id FROM {batch} WHERE price > 3", None),
        ("SELECT * FROM {batch} WHERE price > 3 GROUP BY id", None),
        ("SELECT * FROM {batch} a JOIN {lake://silver/x} b ON a.id = b.id WHERE a.id > 1", None),
    ],
)
def test_which_queries_are_about_single_rows(query: str, condition: str | None) -> None:
    rule = Rule("q", "unexpected_rows_expectation", {"unexpected_rows_query": query}, None, {})
    found = row_rule(rule, TYPES)
    assert (found and found.broken) == (condition and f"coalesce({condition}, false)")


def test_values_become_sql_that_means_the_same() -> None:
    assert json_literal("it's a \\ b") == r"'it\'s a \\ b'"
    assert [json_literal(v) for v in (None, True, 3, 0.1, 2**70)] == [
        "NULL",
        "true",
        "3",
        "double('0.1')",
        f"{2**70}BD",
    ]
    moment = {"$PARAMETER": "now() - timedelta(days=1, hours=2)"}
    assert json_literal(moment) == "(current_timestamp() - INTERVAL 1 days 2 hours)"
    with pytest.raises(NotUnderstood):
        json_literal([1])


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (None, "true"),
        ({"type": "pass_through", "pass_through_filter": "id > 3"}, "(id > 3)"),
        ({"type": "nullity", "column": {"name": "a`b"}, "is_null": False}, "`a``b` IS NOT NULL"),
        (
            {
                "type": "or",
                "conditions": [
                    {"type": "comparison", "column": {"name": "id"}, "operator": "!=", "parameter": 3},
                    {"type": "comparison", "column": {"name": "id"}, "operator": "NOT_IN", "parameter": [1, 2]},
                ],
            },
            "((`id` <> 3) OR (NOT (`id` IN (1, 2))))",
        ),
    ],
)
def test_row_conditions_in_all_forms_that_gx_writes(condition: Any, sql: str) -> None:
    assert row_condition({"row_condition": condition}) == sql


def rule_of(**kwargs: Any) -> Rule:
    return Rule("r", "expect_column_values_to_not_be_null", kwargs, None, {"type": "t"})


def verdict(*results: RuleResult) -> Verdict:
    return Verdict(Suite("shop", tuple(r.rule for r in results), {}), results)


def test_mostly_is_a_share_of_what_can_be_judged() -> None:
    assert result_of_rows(rule_of(mostly=0.9), "warn", 100, 50, 5).success
    assert not result_of_rows(rule_of(mostly=0.9), "warn", 100, 50, 6).success
    assert result_of_rows(rule_of(), "warn", 0, 0, 0).success


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ([], "passed"),
        ([result_of_rows(rule_of(), "warn", 3, 0, 1)], "warned"),
        ([result_of_rows(rule_of(), "warn", 3, 0, 1), result_of_rows(rule_of(), "quarantine", 3, 0, 1)], "quarantined"),
        ([result_of_rows(rule_of(mostly=0.5), "quarantine", 3, 0, 1)], "quarantined"),
        ([result_of_figure(rule_of(), "fail", None, None)], "failed"),
        ([result_of_rows(rule_of(mostly=0.5), "fail", 3, 0, 1)], "passed"),
    ],
)
def test_the_outcome_is_the_worst_that_came_of_it(results: list[RuleResult], outcome: str) -> None:
    assert verdict(*results).outcome == outcome


def test_the_gate_says_which_rule_and_its_figures() -> None:
    open_gate = Ceiling(None, None)
    verify_gate("b", None, open_gate, 5, 5)
    verify_gate("b", verdict(result_of_rows(rule_of(), "warn", 3, 0, 3)), open_gate, 0, 3)
    with pytest.raises(QualityGate, match="r: 2 of 3 rows break it"):
        verify_gate("b", verdict(result_of_rows(rule_of(), "fail", 3, 0, 2)), open_gate, 0, 3)


@pytest.mark.parametrize(
    ("ceiling", "quarantined", "exceeded"),
    [
        (Ceiling(None, None), 100, False),
        (Ceiling(50, None), 50, False),
        (Ceiling(50, None), 51, True),
        (Ceiling(None, 3), 3, False),
        (Ceiling(None, 3), 4, True),
        (Ceiling(50, 3), 4, True),
        (Ceiling(0, None), 1, True),
        (Ceiling(0, None), 0, False),
    ],
)
def test_a_ceiling_is_what_may_still_be(ceiling: Ceiling, quarantined: int, exceeded: bool) -> None:
    assert ceiling.is_exceeded(quarantined, 100) == exceeded


def of_rows(query: str) -> dict[str, Any]:
    return {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}


WHERE_NO_SUCH = {"row_condition": "nosuch > 3", "condition_parser": "spark"}


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (a_rule("column_values_to_not_be_null", column="id", **WHERE_NO_SUCH), "nosuch"),
        (of_rows("SELECT * FROM {batch} WHERE nosuch = 1"), "nosuch"),
        (of_rows("DROP TABLE {batch}"), "DROP TABLE"),
        (of_rows("DROP TABLE {batch}; SELECT 1"), "DROP TABLE"),
    ],
)
def test_a_condition_names_columns_that_are_there_and_a_query_is_a_query(
    tmp_path: Path, rule: dict[str, Any], found: str
) -> None:
    with pytest.raises(SuiteError) as refused:
        judge(tmp_path, rule)
    assert found in refused.value.found
