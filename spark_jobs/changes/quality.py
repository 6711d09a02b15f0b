"""Judges a batch by its suite: row rules while records are decoded, then all figures at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.sql import spark_name, spark_table
from include.pipeline_file.tables import table_uri
from include.quality.batch_rules import QueryRule
from include.quality.judge import Judge
from include.quality.row_rules import RowRule
from include.quality.sql import BATCH
from include.quality.suite import RulePolicy, suite_error
from include.quality.verdict import (
    SAMPLES_MAX,
    RuleResult,
    Verdict,
    result_of_figure,
    result_of_rows,
    with_samples,
)
from include.settings import Settings
from spark_jobs.changes.conditions import asked, fails, holds, is_true
from spark_jobs.engine.failures import is_of_rows, kind_of, text_of
from spark_jobs.engine.rows import first_row

_VIEW = "lakemark_batch"
_CHANCE = "_lakemark_chance"
BROKEN = "_lakemark_broken"  # struct of booleans, one per row rule


def broken(judge: Judge, judged: Column, absent: Column | None = None, always: Column | None = None) -> Column:
    """The row rules that a row breaks, as a struct of booleans; all false for a row that is not `judged`.

    The rules use the columns' bare names.

    Args:
        absent: names of columns that a row does not hold, array<string>; rules about these columns are not applied.
        always: as for `conditions.asked`.
    """

    def spoken_of(row: RowRule) -> Column:
        if absent is None:
            return judged
        return judged & ~F.coalesce(F.arrays_overlap(absent, F.array(*map(F.lit, row.shown))), F.lit(False))

    found = (spoken_of(row) & _is_broken_by(row, always) for row in judge.rows)
    return F.struct(*(is_broken.alias(_field(n)) for n, is_broken in enumerate(found)))


def _is_broken_by(row: RowRule, always: Column | None) -> Column:
    """A row on which the rule's condition fails breaks the rule."""
    answer = asked(row.broken, always)
    return is_true(answer) | fails(answer)


def reason(judge: Judge, broken: str) -> Column:
    """Why a row is quarantined: the names of the broken rules whose policy is to quarantine; null if there is none."""
    broken_ones = _names(judge, judge.quarantines, broken)
    return F.when(_any(judge, judge.quarantines, broken), F.concat(F.lit("breaks "), F.array_join(broken_ones, "; ")))


def rules(judge: Judge, broken: str) -> Column:
    """The names of all rules that a row breaks, whatever their policy: array<string>; null if there is none."""
    return F.when(_any(judge, judge.rows, broken), _names(judge, judge.rows, broken))


def judgement(
    spark: SparkSession, settings: Settings, judge: Judge, rows: DataFrame, accepted: DataFrame, broken: str
) -> Verdict:
    """The suite's verdict.

    Args:
        rows: the rows to judge, with the columns' bare names and the struct that `broken` made. accepted: those of
            them that would be merged, with the bare names.
    """
    results: dict[str, RuleResult] = {}
    for result in (
        *_of_rows(judge, rows, broken),
        *_of_schema(judge),
        *_of_figures(judge, accepted),
        *_of_queries(spark, settings, judge, accepted),
        *_of_gx(judge, accepted),
    ):
        results[result.rule.name] = result
    return Verdict(judge.suite, tuple(results[rule.name] for rule in judge.suite.rules))


def _of_rows(judge: Judge, rows: DataFrame, broken: str) -> list[RuleResult]:
    if not judge.rows:
        return []
    counts = {text for row in judge.rows for text in (row.domain, row.applies)}  # many rules count the same rows
    places = {text: f"n{n}" for n, text in enumerate(sorted(counts))}
    always = F.col(broken).isNotNull()
    found = first_row(
        rows.agg(
            *(F.count_if(is_true(asked(text, always))).alias(place) for text, place in places.items()),
            *(F.count_if(F.col(f"{broken}.{_field(n)}")).alias(_field(n)) for n in range(len(judge.rows))),
        )
    )
    results = []
    for n, row in enumerate(judge.rows):
        elements, applies = found[places[row.domain]], found[places[row.applies]]
        missing = elements - applies if row.counts_missing else None
        policy, unexpected = judge.policies[row.rule.name], found[_field(n)]
        results.append(result_of_rows(row.rule, policy, elements, missing=missing, unexpected=unexpected))
    return _sampled(judge, rows, broken, results)


def _sampled(judge: Judge, rows: DataFrame, broken: str, results: list[RuleResult]) -> list[RuleResult]:
    """Adds values of some rows that break each rule: a few for each rule, never all (they would fill the driver).

    One pass serves all rules: rows are drawn at random, about ten times as many per rule as the report shows.
    """
    wanted = {n: result.unexpected for n, result in enumerate(results) if result.unexpected}
    if not wanted:
        return results
    drawn = rows.withColumn(_CHANCE, F.rand(0))
    found = first_row(
        drawn.agg(
            *(
                F.slice(
                    F.collect_list(
                        F.when(
                            F.col(f"{broken}.{_field(n)}") & (F.col(_CHANCE) < 10 * SAMPLES_MAX / count),
                            _shown(judge.rows[n].shown),
                        )
                    ),
                    1,
                    SAMPLES_MAX,
                ).alias(_field(n))
                for n, count in wanted.items()
            )
        )
    )
    samples = {n: [_value(text, judge.rows[n].shown) for text in found[_field(n)]] for n in wanted}
    return [with_samples(result, samples.get(n, [])) for n, result in enumerate(results)]


def _of_schema(judge: Judge) -> Iterable[RuleResult]:
    for schema in judge.schema:
        yield result_of_figure(schema.rule, judge.policies[schema.rule.name], schema.observed, schema.holds)


def _of_figures(judge: Judge, accepted: DataFrame) -> Iterable[RuleResult]:
    """One pass computes most figures. A second pass computes figures for which Spark has to tell all values apart."""
    conditions = sorted({rule.condition for rule in judge.figures if rule.condition != "true"})
    among = {condition: f"_lakemark_among_{n}" for n, condition in enumerate(conditions)}
    accepted = accepted.select("*", *(holds(condition).alias(place) for condition, place in among.items()))
    for costly in (False, True):
        rules = [rule for rule in judge.figures if rule.sees_every_value == costly]
        if not rules:
            continue
        places = [among.get(rule.condition) for rule in rules]
        found = first_row(
            accepted.agg(
                *(F.expr(r.observed(places[n])).cast("string").alias(f"o{n}") for n, r in enumerate(rules)),
                *(F.expr(r.holds(places[n])).alias(f"h{n}") for n, r in enumerate(rules)),
            )
        )
        for n, rule in enumerate(rules):
            yield result_of_figure(rule.rule, judge.policies[rule.rule.name], _number(found[f"o{n}"]), found[f"h{n}"])


def _of_queries(spark: SparkSession, settings: Settings, judge: Judge, accepted: DataFrame) -> Iterable[RuleResult]:
    for query in judge.queries:
        try:
            yield _of_query(spark, settings, query, accepted, policy=judge.policies[query.rule.name])
        except Exception as error:
            if not is_of_rows(error):
                raise
            allowed = "a query that fails on no row: try_divide, try_cast ... give null instead"
            where, evidence = f"rule {query.rule.name}", text_of(error)[:1500]
            raise suite_error(judge.path, where, allowed, kind_of(error), evidence=evidence) from error


def _of_query(
    spark: SparkSession, settings: Settings, query: QueryRule, accepted: DataFrame, policy: RulePolicy
) -> RuleResult:
    about = accepted if query.condition == "true" else accepted.where(holds(query.condition))
    about.createOrReplaceTempView(_VIEW)
    text, versions = _pinned(spark, settings, query)
    unexpected = spark.sql(text)
    count = first_row(unexpected.agg(F.expr(query.row_weight).alias("n")))["n"]
    elements, applies = first_row(about.agg(F.count("*"), F.count_if(F.expr(query.applies))))
    missing = elements - applies if query.applies != "true" else None
    result = result_of_rows(query.rule, policy, elements, missing=missing, unexpected=count)
    if count:
        shown = [c for c in unexpected.columns if not c.startswith("_lakemark")]
        found = unexpected.limit(SAMPLES_MAX).select(_shown(shown).alias("shown")).collect()
        result = with_samples(result, [_value(row["shown"], shown) for row in found])
    # A query over several tables may find more rows than the batch has. It holds if it finds none.
    result = replace(result, success=count == 0 if query.references else result.success)
    return replace(result, result={**result.result, **({"versions": versions} if versions else {})})


def _pinned(spark: SparkSession, settings: Settings, query: QueryRule) -> tuple[str, Mapping[str, int]]:
    """The query with every other table pinned to one version, and these versions by table."""
    text, versions = query.query.replace(BATCH, _VIEW), {}
    for reference in query.references:
        name = spark_table(table_uri(settings, reference.table))
        version = reference.version
        if version is None:
            version = first_row(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1"))["version"]
        versions[reference.table] = version
        text = text.replace(reference.text, f"{name} VERSION AS OF {version}")
    return text, versions


def _of_gx(judge: Judge, accepted: DataFrame) -> Iterable[RuleResult]:
    if not judge.by_gx:
        return []
    from spark_jobs.changes.gx_engine import validate  # Great Expectations takes seconds to import

    return validate(judge.by_gx, judge.policies, accepted)


def _any(judge: Judge, rows: Sequence[RowRule], broken: str) -> Column:
    return reduce(or_, (_is_broken(judge, row, broken) for row in rows), F.lit(False))


def _names(judge: Judge, rows: Sequence[RowRule], broken: str) -> Column:
    found = (F.when(_is_broken(judge, row, broken), F.lit(row.rule.name)) for row in rows)
    return F.array_compact(F.array(F.lit(None).cast("string"), *found))


def _is_broken(judge: Judge, row: RowRule, broken: str) -> Column:
    return F.col(f"{broken}.{_field(judge.rows.index(row))}")


def _field(number: int) -> str:
    return f"r{number}"


def _shown(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*map(spark_name, columns)))


def _value(shown: str, columns: Sequence[str]) -> Any:
    """A sample as Great Expectations shows it: the value of one column, or all values of several columns."""
    values = json.loads(shown)
    return values.get(columns[0]) if len(columns) == 1 else {name: values.get(name) for name in columns}


def _number(text: str | None) -> Any:
    """A figure as a JSON number, or as its text."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
