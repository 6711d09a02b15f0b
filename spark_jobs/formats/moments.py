"""Moments as numbers since 1970."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def moment(count: Column, unit: Column) -> Column:
    """A timestamp. Args: count: bigint. unit: millis, micros or nanos, which are cut to micro, rounded down."""
    micros = F.when(unit == "millis", count * 1_000).when(unit == "nanos", _thousandth(count)).otherwise(count)
    return F.timestamp_micros(micros)


def _thousandth(count: Column) -> Column:
    """In integers: a double does not hold today's nanoseconds."""
    return F.call_function("div", count - F.pmod(count, F.lit(1_000)), F.lit(1_000))
