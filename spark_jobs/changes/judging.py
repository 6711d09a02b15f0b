"""Decides from the pipeline file what a record is: a delete, filtered, for a route, or set aside with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.changes.conditions import asked, fails, is_true
from spark_jobs.changes.dispositions import TRUNCATE
from spark_jobs.changes.placing import BARE, DELETED, TAKES, order_of, valid_at
from spark_jobs.formats.contract import KIND, NO_VALUE, PROBLEM, RECORD

FILTERED = f"{LINEAGE}_filtered"  # boolean: the record is left out
UNKNOWN = f"{LINEAGE}_unknown"  # string: see `problem_of`
_WANTED, _DELETES = f"{LINEAGE}_wanted", f"{LINEAGE}_deletes"  # answers of `source.filter` and `change.delete_when`


def with_deletes(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds DELETED and BARE, and the answer of `change.delete_when`."""
    condition = pipeline.change.delete_when
    deleted = F.col(KIND).isin("delete", "truncate")
    deleted = deleted | _is_tombstone() if pipeline.tombstones == "delete" else deleted
    bare = F.col(KIND).isin("delete", "truncate") | _is_tombstone()
    if condition:
        named = named.withColumn(_DELETES, asked(condition))
        says_so = is_true(F.col(_DELETES))
        others = F.array(F.lit(False), *(F.col(spark_name(name)).isNotNull() for name in pipeline.beyond_deletes))
        deleted, bare = deleted | says_so, bare | (says_so & ~F.array_contains(others, True))
    return named.drop(BARE).select("*", deleted.alias(DELETED), bare.alias(BARE))


def with_filter(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds FILTERED. A record on which the condition fails gets a PROBLEM.

    The condition is not evaluated for a delete that has a key and nothing else: the row has to go.
    """
    condition, none = pipeline.source.filter, _is_none(pipeline)
    if not condition:
        return named.withColumn(FILTERED, none)
    is_asked = ~F.col(KIND).isin("delete", "truncate") & ~_is_tombstone() & ~F.col(BARE)
    named = named.withColumn(_WANTED, F.when(is_asked, asked(condition)).otherwise("true"))
    failed = F.when(fails(F.col(_WANTED)), "source.filter fails on this record")
    named = named.withColumn(PROBLEM, F.coalesce(PROBLEM, failed))
    return named.withColumn(FILTERED, none | (~fails(F.col(_WANTED)) & ~is_true(F.col(_WANTED))))


def with_routes(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds TAKES, if the pipeline has routes."""
    if not pipeline.target.routes:
        return named
    answers = (
        asked(route.when) if route.when else F.col(f"{RECORD}.topic").isin(*route.topics).cast("string")
        for route in pipeline.target.routes
    )
    return named.withColumn(TAKES, F.array(*answers))


def problem_of(pipeline: Pipeline) -> Column:
    """Why no change can be made from a record: the format's reason, or a condition of the pipeline file fails on it.

    A tombstone that counts as a delete, or is left out, is no problem.
    """
    problem = F.col(PROBLEM)
    problem = problem if pipeline.tombstones == "quarantine" else F.when(~_is_tombstone(), problem)
    said = [problem]
    if "timestamp" in pipeline.source.metadata.values() or any(order.of == "kafka" for order in pipeline.order):
        said.append(F.when(F.col(f"{RECORD}.timestamp").isNull(), "Kafka's timestamp is in no year of 1 to 9999"))
    if pipeline.change.delete_when:
        said.append(F.when(fails(F.col(_DELETES)), "change.delete_when fails on this record"))
    if pipeline.target.routes:
        said.append(F.when(F.exists(TAKES, fails), "a condition of target.routes fails on this record"))
    return F.coalesce(*said)


def reason_of(pipeline: Pipeline) -> Column:
    """Why a record is set aside; null if it is not. Needs UNKNOWN."""

    def any_null(columns: Iterable[Column]) -> Column:
        return reduce(or_, (column.isNull() for column in columns), F.lit(False))

    keys, order = pipeline.change.keys, order_of(pipeline)
    if pipeline.keeps_history:
        order[pipeline.valid_from.name] = valid_at(pipeline)
    truncate = F.col(KIND) == "truncate"
    is_change = ~_is_none(pipeline)
    if pipeline.transform is not None:  # a filtered record bypasses the transform, and lacks most of its columns
        is_change &= ~F.col(FILTERED)
    no_key = ~truncate & any_null(F.col(spark_name(name)) for name in keys)
    return (
        F.when(truncate & F.lit(pipeline.change.truncates == "fail"), TRUNCATE)
        .when(F.col(UNKNOWN).isNotNull(), F.col(UNKNOWN))
        .when(is_change & no_key, f"null in a key column ({', '.join(keys)})")
        .when(is_change & any_null(order.values()), f"null in an order column ({', '.join(order)})")
    )


def _is_tombstone() -> Column:
    return F.coalesce(F.col(PROBLEM) == NO_VALUE, F.lit(False))


def _is_none(pipeline: Pipeline) -> Column:
    """Whether a record changes no row: a tombstone to leave out, a message that Debezium passes on (`op` is m), a
    truncate that is not applied."""
    none = F.col(KIND).isin("none", *([] if pipeline.change.truncates == "apply" else ["truncate"]))
    if pipeline.tombstones == "quarantine":
        return none
    return F.when(_is_tombstone(), F.lit(pipeline.tombstones == "ignore")).otherwise(none)
