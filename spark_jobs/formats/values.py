"""What texts become as declared types, where Spark's own reading of them would guess, or work for hours.

| declared | what is taken |
| --- | --- |
| DATE | year-month-day; with a time only if that is midnight |
| TIMESTAMP | year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known |
| DECIMAL, FLOAT, DOUBLE | a number; one with more decimal places than are declared is rounded, as Spark's casts round |
| whole numbers | digits, with or without a sign |
| STRING | text; bytes that are not UTF-8 are none |

Years beyond 1 to 9999 are none: most readers of tables have no such moments. (`include/installation`: TextValues.java,
and JsonValues.java for JSON.)
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.schema_ddl import word_of
from spark_jobs.formats.functions import text_value

_INFINITE = float("inf")
_WHOLE = r"^-?[0-9]{1,19}\z"  # `\z` is the end; before a last line feed, too, is `$`


def is_count(text: Column) -> Column:
    """Whether a text in the place of a moment is a whole number."""
    return text.rlike(_WHOLE)


def of_text(text: Column, type_: str, unit: str | None = None) -> Column:
    """A text as a simple type; null where it cannot be that.

    Args:
        unit: seconds, millis, micros or nanos: what a number is that stands for a TIMESTAMP; None: nobody knows.
    """
    match word_of(type_):
        case "STRING":
            return F.try_validate_utf8(text)
        case "BINARY":
            return text.cast("binary")
        case _:
            return text_value(text, type_, unit)


def as_float(number: Column) -> Column:
    """A DOUBLE as the nearest FLOAT; null where that would be infinite and the number is not."""
    found = number.cast("float")
    return F.when((F.abs(found) != _INFINITE) | (F.abs(number) == _INFINITE), found)
