"""Decimals as Kafka Connect writes them: an unscaled integer in bytes, and a scale."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_SCALE_MAX = 76  # no DECIMAL(38) needs more; a scale of billions would be a text of gigabytes

# In SQL, for as calls of functions it is a hundred deep, which is where Spark Connect's client ends.
# The magnitude of a negative number is that of its inverted bits, and one more.
_NEGATIVE = "substring(d.digits, 1, 1) >= '8'"
_INVERTED = "translate(d.digits, '0123456789ABCDEF', 'FEDCBA9876543210')"
_MAGNITUDE = f"lpad(if({_NEGATIVE}, {_INVERTED}, d.digits), 42, '0')"
_HIGH, _MIDDLE, _LOW = (
    f"CAST(conv(substring({_MAGNITUDE}, {start}, 14), 16, 10) AS DECIMAL(38, 0))" for start in (1, 15, 29)
)
_WIDE = f"CAST({2**56} AS DECIMAL(38, 0))"
_TOTAL = f"try_add(try_multiply(try_add(try_multiply({_HIGH}, {_WIDE}), {_MIDDLE}), {_WIDE}), {_LOW})"
_ABSOLUTE = f"CAST(if({_NEGATIVE}, try_add({_TOTAL}, CAST(1 AS DECIMAL(38, 0))), {_TOTAL}) AS STRING)"
_INTEGER = (
    "d -> CASE WHEN length(d.digits) BETWEEN 1 AND 32 THEN "
    f"struct(if({_NEGATIVE}, '-', '') AS sign, {_ABSOLUTE} AS digits, d.scale AS scale) END"
)
_PADDED = "lpad(d.digits, greatest(length(d.digits), d.scale + 1), '0')"
_SHIFTED = (
    f"d -> CASE WHEN d.scale BETWEEN 0 AND {_SCALE_MAX} "
    f"THEN concat(d.sign, left({_PADDED}, length({_PADDED}) - d.scale), '.', right({_PADDED}, d.scale)) "
    f"WHEN d.scale BETWEEN {-_SCALE_MAX} AND -1 "
    "THEN concat(d.sign, d.digits, repeat('0', -d.scale)) END"
)


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """The text of a decimal; null where no DECIMAL has so many digits.

    Args:
        unscaled: a big-endian two's complement integer of at most 16 bytes, in hexadecimal digits. scale: int.
    """
    given = F.array(F.struct(unscaled.alias("digits"), scale.alias("scale")))
    integers = F.call_function("transform", given, F.expr(_INTEGER))
    return F.get(F.call_function("transform", integers, F.expr(_SHIFTED)), F.lit(0))
