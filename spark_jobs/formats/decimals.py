"""Decimals as Kafka Connect writes them: an unscaled integer in bytes, and a scale."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_SCALE_MAX = 76  # no DECIMAL(38) needs more; a scale of billions would be a text of gigabytes


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """The text of a decimal.

    Args:
        unscaled: a big-endian two's complement integer of at most 16 bytes, in hexadecimal digits. scale: int.
    """
    return _shifted(_integer(unscaled), scale)


def _integer(digits: Column) -> Column:
    """The text of the integer."""
    negative = F.substring(digits, 1, 1) >= "8"
    # The magnitude of a negative number is that of its inverted bits, and one more.
    magnitude = F.lpad(
        F.when(negative, F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")).otherwise(digits), 42, "0"
    )
    chunks = [F.conv(F.substring(magnitude, start, 14), 16, 10).cast("decimal(38,0)") for start in (1, 15, 29)]
    high, middle, low = chunks
    wide = F.lit(str(2**56)).cast("decimal(38,0)")
    total = F.try_add(F.try_multiply(F.try_add(F.try_multiply(high, wide), middle), wide), low)
    one = F.lit(1).cast("decimal(38,0)")
    text = F.when(negative, F.concat(F.lit("-"), F.try_add(total, one).cast("string"))).otherwise(total.cast("string"))
    return F.when((F.length(digits) > 0) & (F.length(digits) <= 32), text)


def _shifted(integer: Column, scale: Column) -> Column:
    """An integer's text with the decimal point so many digits from its end; null where no DECIMAL has that many."""
    sign = F.when(integer.startswith("-"), "-").otherwise("")
    digits = F.ltrim(integer, F.lit("-"))
    padded = F.when(F.length(digits) <= scale, F.lpad(digits, scale + 1, F.lit("0"))).otherwise(digits)
    whole = F.substring(padded, F.lit(1), F.length(padded) - scale)
    parted = F.concat(sign, whole, F.lit("."), F.substring(padded, F.length(padded) - scale + 1, scale))
    multiple = F.concat(sign, digits, F.repeat(F.lit("0"), -scale))
    return F.when(scale.between(0, _SCALE_MAX), parted).when(scale.between(-_SCALE_MAX, -1), multiple)
