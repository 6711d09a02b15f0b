"""Moments: as numbers since 1970, and within the years that readers of tables have."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_FIRST, _LAST = "0001-01-01", "9999-12-31 23:59:59.999999"


def moment(count: Column, unit: Column) -> Column:
    """A timestamp; null where no year of 1 to 9999 has it.

    Args:
        count: bigint. unit: seconds, millis, micros or nanos, which are cut to micro, rounded down.
    """
    micros = (
        F.when(unit == "seconds", F.try_multiply(count, F.lit(1_000_000)))
        .when(unit == "millis", F.try_multiply(count, F.lit(1_000)))
        .when(unit == "nanos", _thousandth(count))
        .otherwise(count)
    )
    return within_years(F.timestamp_micros(micros))


def within_years(value: Column) -> Column:
    """A date or a timestamp; null beyond the years 1 to 9999, which most readers of tables cannot show."""
    return F.when(value.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp")), value)


def _thousandth(count: Column) -> Column:
    """In integers: a double does not hold today's nanoseconds."""
    towards_zero = F.call_function("div", count, F.lit(1_000))
    return towards_zero - F.when((count < 0) & (count % 1_000 != 0), 1).otherwise(0)
