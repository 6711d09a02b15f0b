"""Makes timestamps from numbers since 1970, and keeps dates and timestamps within the years that readers can show."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_FIRST, _LAST = "0001-01-01", "9999-12-31 23:59:59.999999"


def moment(count: Column, unit: Column) -> Column:
    """The timestamp of a count since 1970; null outside the years 1 to 9999.

    Args:
        count: bigint. unit: seconds, millis, micros or nanos. Nanoseconds are rounded down to microseconds.
    """
    micros = (
        F.when(unit == "seconds", F.try_multiply(count, F.lit(1_000_000)))
        .when(unit == "millis", F.try_multiply(count, F.lit(1_000)))
        .when(unit == "nanos", _thousandth(count))
        .otherwise(count)
    )
    return within_years(F.timestamp_micros(micros))


def within_years(value: Column) -> Column:
    """A date or a timestamp; null outside the years 1 to 9999, which are all that most readers of tables can show."""
    return F.when(value.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp")), value)


def _thousandth(count: Column) -> Column:
    """A thousandth, rounded down. It uses integers: a double cannot hold the nanoseconds of today."""
    towards_zero = F.call_function("div", count, F.lit(1_000))
    return towards_zero - F.when((count < 0) & (count % 1_000 != 0), 1).otherwise(0)
