"""A suite prepared for judging: for every rule what has to be computed, and its policy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from include.pipeline_file import Pipeline
from include.pipeline_file.condition import names_beyond
from include.pipeline_file.in_words import near
from include.protocol.errors import SuiteError, TerminalError
from include.quality.batch_rules import (
    AGGREGATE_RULES,
    QUERY_RULES,
    SCHEMA_RULES,
    AggregateRule,
    QueryRule,
    SchemaRule,
    aggregate_rule,
    query_rule,
    schema_rule,
)
from include.quality.row_rules import ROW_RULES, RowRule, row_rule
from include.quality.sql import NotUnderstood, row_condition
from include.quality.suite import Rule, RulePolicy, Suite, suite_error
from include.settings import Settings

OWN_RULES = (*ROW_RULES, *AGGREGATE_RULES, *QUERY_RULES, *SCHEMA_RULES)
# Great Expectations itself computes these, on the same rows: that takes a pass or more, and seconds to import it.
GX_RULES = (
    "expect_column_distinct_values_to_be_in_set",
    "expect_column_distinct_values_to_contain_set",
    "expect_column_distinct_values_to_equal_set",
    "expect_column_kl_divergence_to_be_less_than",
    "expect_column_median_to_be_between",
    "expect_column_most_common_value_to_be_in_set",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_quantile_values_to_be_between",
    "expect_column_to_exist",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_not_be_outliers",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
    "expect_table_columns_to_match_ordered_list",
    "expect_table_columns_to_match_set",
)


@dataclass(frozen=True)
class Judge:
    """The rules of a suite, by how they are computed.

    `quarantines` holds the row rules whose policy sets aside the rows that break them.
    """

    path: Path  # of the suite
    suite: Suite
    policies: Mapping[str, RulePolicy]  # by the rule's name
    rows: tuple[RowRule, ...]
    figures: tuple[AggregateRule, ...]
    queries: tuple[QueryRule, ...]
    schema: tuple[SchemaRule, ...]
    by_gx: tuple[Rule, ...]

    @classmethod
    def of(cls, path: Path, types: Mapping[str, str], default: RulePolicy) -> Self:
        """Reads a suite's file and prepares it.

        Args:
            types: of the columns that it may use, as Spark DDL. default: the policy of rules that name none.

        Raises:
            SuiteError: it says file, rule, what is allowed and what was found.
        """
        suite = Suite.load(path)
        rows: list[RowRule] = []
        figures: list[AggregateRule] = []
        queries: list[QueryRule] = []
        schema: list[SchemaRule] = []
        by_gx: list[Rule] = []
        policies: dict[str, RulePolicy] = {}
        for rule in suite.rules:
            _verify_columns(path, rule, types)
            try:
                _verify_condition(path, rule, row_condition(rule.kwargs), types)
                if row := row_rule(rule, types):
                    rows.append(row)
                    if rule.type == "unexpected_rows_expectation":
                        _verify_condition(path, rule, row.broken, types)
                elif figure := aggregate_rule(rule):
                    figures.append(figure)
                elif query := query_rule(rule):
                    queries.append(query)
                elif of_type := schema_rule(rule, types):
                    schema.append(of_type)
                elif rule.type in GX_RULES:
                    by_gx.append(rule)
                else:
                    alike = difflib.get_close_matches(rule.type, (*OWN_RULES, *GX_RULES), n=3)
                    known = " | ".join(alike) or "an expectation of docs/quality.md"
                    raise suite_error(path, f"rule {rule.name}, type", known, rule.type)
            except NotUnderstood as error:
                raise suite_error(path, f"rule {rule.name}", error.expected, error.found) from error
            except KeyError as error:
                raise suite_error(path, f"rule {rule.name}, kwargs", f"a value for {error.args[0]}", "none") from error
            is_row_rule = bool(rows) and rows[-1].rule is rule
            policies[rule.name] = _policy(path, rule, default, is_row_rule)
        return cls(
            path,
            suite,
            policies,
            rows=tuple(rows),
            figures=tuple(figures),
            queries=tuple(queries),
            schema=tuple(schema),
            by_gx=tuple(by_gx),
        )

    @property
    def quarantines(self) -> tuple[RowRule, ...]:
        return tuple(row for row in self.rows if self.policies[row.rule.name] == "quarantine")


def judge_of(settings: Settings, pipeline: Pipeline) -> Judge | None:
    """The judge of a pipeline's batches; None if its file names no suite. Raises SuiteError."""
    quality = pipeline.quality
    if quality.suite is None:
        return None
    types = {column.name: column.type for column in pipeline.columns}
    return Judge.of(suite_path(settings, quality.suite), types, quality.on_fail)


def table_judge(settings: Settings, pipeline: Pipeline) -> Judge:
    """The judge of a pipeline's target itself. No row of it can be set aside, so a rule without a policy has `fail`.

    Raises:
        SuiteError: as `Judge.of`, and for a rule that would quarantine. TerminalError: the file names no suite.
    """
    checks = pipeline.quality.table
    if checks is None:
        raise TerminalError(
            what="the pipeline has no table checks",
            where=f"{pipeline.name}.yaml, field quality.table",
            expected="the name of a suite",
            found="nothing",
            action="name one: docs/quality.md, Table checks",
        )
    path = suite_path(settings, checks.suite)
    types = {column.name: column.type for column in pipeline.columns}
    judge = Judge.of(path, types, "fail")
    for name, policy in judge.policies.items():
        if policy == "quarantine":
            found = "quarantine"
            raise suite_error(path, f"rule {name}", "fail | warn: a table's row cannot be set aside", found)
    return judge


def suite_path(settings: Settings, name: str) -> Path:
    return settings.expectations / f"{name}.json"


def _policy(path: Path, rule: Rule, default: RulePolicy, is_row_rule: bool) -> RulePolicy:
    """The rule's own policy, or the one of its severity, or the pipeline's. A rule about a batch as a whole has no row
    to set aside: it lets nothing land instead."""
    if rule.on_fail == "quarantine" and not is_row_rule:
        raise suite_error(
            path,
            f"rule {rule.name}, meta.lakemark.on_fail",
            "fail | warn: it judges a batch as a whole, there is no row to set aside",
            "quarantine",
        )
    if rule.on_fail is not None:
        return rule.on_fail
    if rule.config.get("severity") in ("warning", "info"):
        return "warn"
    return "fail" if default == "quarantine" and not is_row_rule else default


def _verify_columns(path: Path, rule: Rule, types: Mapping[str, str]) -> None:
    for name in rule.columns:
        if name not in types:
            raise _no_column(path, rule, name, types)


def _verify_condition(path: Path, rule: Rule, condition: str, types: Mapping[str, str]) -> None:
    """Spark itself finds what else is wrong with a condition."""
    if condition != "true" and (unknown := names_beyond(condition, types)):
        raise _no_column(path, rule, unknown[0], types)


def _no_column(path: Path, rule: Rule, name: str, types: Mapping[str, str]) -> SuiteError:
    return suite_error(path, f"rule {rule.name}", f"a column of {', '.join(types)}{near(name, [*types])}", name)
