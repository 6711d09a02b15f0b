"""Evaluates users' conditions on records: the answer is true, false, unknown, or a failure.

`amount / pieces > 5` fails where there are no pieces, and an expression that fails ends a Spark job: one record would
stop its pipeline for good. So a condition is evaluated within Spark's own `try`, the base of its `try_...` functions.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.contract import RECORD

_UNKNOWN = "unknown"


def asked(condition: str, always: Column | None = None) -> Column:
    """A condition's answer for a record, string. `is_true` and `fails` read it.

    Args:
        always: an expression that is true for every row, which Spark cannot know; default: a record has an offset.
    """
    # Spark computes a part that several expressions share before these expressions, and outside every `try`. It does
    # not do so for a part that only one branch of a CASE needs.
    case = F.col(f"{RECORD}.offset").isNotNull() if always is None else always
    answer = F.when(case, F.expr(condition)).cast("string")
    return F.try_to_binary(F.coalesce(answer, F.lit(_UNKNOWN)), F.lit("utf-8")).cast("string")


def holds(condition: str) -> Column:
    """Whether a condition is true of a row, in a frame of rows; false if it fails on it."""
    return is_true(asked(condition, always=F.monotonically_increasing_id() >= 0))


def is_true(answer: Column) -> Column:
    return F.coalesce(answer == "true", F.lit(False))


def fails(answer: Column) -> Column:
    return answer.isNull()
