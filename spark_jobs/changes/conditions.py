"""Conditions of users, asked of records: true, false, unknown, or not to be answered.

`amount / pieces > 5` fails where there are no pieces, and an expression that fails ends a Spark job: one record would
stop its pipeline for good. So a condition is asked within Spark's own `try`, of which its functions `try_...` are made.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.contract import RECORD

_UNKNOWN = "unknown"


def asked(condition: str, always: Column | None = None) -> Column:
    """What a condition says of a record, string: for `is_true` and `fails`.

    Args:
        always: what is true of every row, and Spark does not know; default: a record has an offset.
    """
    # Spark computes what several expressions share before any of them, and outside of every `try`; but not what only
    # one case of several needs.
    case = F.col(f"{RECORD}.offset").isNotNull() if always is None else always
    answer = F.when(case, F.expr(condition)).cast("string")
    return F.try_to_binary(F.coalesce(answer, F.lit(_UNKNOWN)), F.lit("utf-8")).cast("string")


def is_true(answer: Column) -> Column:
    return F.coalesce(answer == "true", F.lit(False))


def fails(answer: Column) -> Column:
    return answer.isNull()
