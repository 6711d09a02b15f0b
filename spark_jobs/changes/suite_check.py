"""Asks Spark whether a suite makes sense, by one row of usual values.

A rule that fails on a row counts as broken by it: no record may stop a batch. A rule that can only fail (its regular
expression is none, or its limit is no number) would set every row aside. Then it is the suite that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file.schema_ddl import DECIMALS, FLOATS, TIMESTAMPS, WHOLE, Column, word_of
from include.protocol.errors import SuiteError
from include.quality.judge import Judge
from include.quality.row_rules import row_rule
from include.quality.sql import BATCH, row_condition
from include.quality.suite import Rule, suite_error
from spark_jobs.changes.conditions import asked, fails
from spark_jobs.engine.failures import text_of
from spark_jobs.engine.rows import first_row

_USUAL = {
    **dict.fromkeys(("STRING", "BINARY"), "'2026'"),  # which is a number and a date, too: a rule may read it as one
    **dict.fromkeys(("DATE", *TIMESTAMPS), "'2026-01-01'"),
    **dict.fromkeys((*WHOLE, *FLOATS, *DECIMALS), "0"),
    "BOOLEAN": "true",
}  # of other types the usual value is null
_VIEW = "lakemark_usual"


@dataclass(frozen=True)
class _Question:
    rule: Rule
    sql: str
    is_aggregate: bool = False
    may_fail: bool = False  # on some rows: a user's condition, which may divide


def verify_suite(spark: SparkSession, judge: Judge, columns: Sequence[Column]) -> None:
    """Checks that Spark can compute every rule, and that no rule fails by its own values, whatever the row.

    Args:
        columns: those that the rules may use.

    Raises:
        SuiteError: it says rule, what is allowed, and what Spark has found.
    """
    usual = (f"CAST({_USUAL.get(word_of(c.type), 'NULL')} AS {c.type}) AS {spark_name(c.name)}" for c in columns)
    row = spark.range(0, 1, 1, numPartitions=1).selectExpr(*usual)
    questions = [*_questions(judge, {column.name: column.type for column in columns})]
    if questions:
        _verify(judge, row, questions)
    for query in judge.queries:
        if query.rule.type == "unexpected_rows_expectation" and not query.references:
            row.createOrReplaceTempView(_VIEW)
            try:
                _ = spark.sql(query.query.replace(BATCH, _VIEW)).schema
            except AnalysisException as error:
                raise _refused(judge, query.rule, error) from error


def _questions(judge: Judge, types: Mapping[str, str]) -> Iterator[_Question]:
    for row in judge.rows:
        own = None if row.rule.type == "unexpected_rows_expectation" else row_rule(row.rule.of_all_rows, types)
        if own is not None:
            yield _Question(row.rule, own.broken)
        if own is None or own.broken != row.broken:
            yield _Question(row.rule, row.broken, may_fail=True)
    for figure in judge.figures:
        yield _Question(figure.rule, figure.holds(None), is_aggregate=True)
        if figure.condition != "true":
            yield _Question(figure.rule, figure.condition, may_fail=True)
    for query in judge.queries:
        if query.condition != "true":
            yield _Question(query.rule, query.condition, may_fail=True)
    for rule in judge.by_gx:
        if (condition := row_condition(rule.kwargs)) != "true":
            yield _Question(rule, condition, may_fail=True)


def _verify(judge: Judge, row: DataFrame, questions: Sequence[_Question]) -> None:
    """Asks all in one query, and only if Spark finds something, one by one."""
    named = {f"_lakemark_fails_{n}": question for n, question in enumerate(questions)}
    one_row, one_group = F.monotonically_increasing_id() >= 0, F.count("*") >= 0
    of_row = [fails(asked(q.sql, one_row)).alias(name) for name, q in named.items() if not q.is_aggregate]
    answers = [
        fails(asked(q.sql, one_group)).alias(name) if q.is_aggregate else F.first(name).alias(name)
        for name, q in named.items()
    ]
    try:
        found = first_row(row.select("*", *of_row).agg(*answers))
        suspects = [question for name, question in named.items() if found[name] and not question.may_fail]
    except PySparkException:
        suspects = [*questions]
    for question in suspects:
        _verify_alone(judge, row, question)


def _verify_alone(judge: Judge, row: DataFrame, question: _Question) -> None:
    condition = F.expr(question.sql)
    try:
        frame = row.agg(condition) if question.is_aggregate else row.select(condition)
        _ = frame.schema if question.may_fail else frame.collect()
    except PySparkException as error:
        row.sparkSession.range(1).count()  # if Spark is gone, that is the error
        raise _refused(judge, question.rule, error) from error


def _refused(judge: Judge, rule: Rule, error: Exception) -> SuiteError:
    """The text quotes the suite, and the usual row, but no record."""
    found = text_of(error).split("== SQL")[0].partition("\n\tat ")[0]
    found = found.rpartition("executor driver): ")[2]
    return suite_error(judge.path, f"rule {rule.name}", "what Spark can compute", " ".join(found.split())[:500])
