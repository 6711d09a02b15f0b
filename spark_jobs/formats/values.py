"""Converts texts to declared types. Spark's own casts would guess, or work for hours.

| declared | what fits |
| --- | --- |
| DATE | year-month-day; with a time only if that is midnight |
| TIMESTAMP | year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known |
| DECIMAL, FLOAT, DOUBLE | a number; one with more decimal places than are declared is rounded, as Spark's casts round |
| whole numbers | digits, with or without a sign |
| STRING | text that is UTF-8 |

In a key column, a value that would be rounded, or cut to microseconds, does not fit: two keys would become one.
Years outside 1 to 9999 do not fit: most readers of tables cannot show them. (The Java is in `include/installation`:
TextValues.java, TextTimes.java, and JsonValues.java for JSON.)
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.pipeline_file import schema_ddl
from include.pipeline_file.schema_ddl import DECIMALS, TIMESTAMPS
from spark_jobs.formats.functions import text_value

_INFINITE = float("inf")
_WHOLE = r"^-?[0-9]{1,19}\z"  # `\z` matches only at the end; `$` would also match before a last line feed


def none_of(column: schema_ddl.Column) -> str:
    """The reason to set a record aside: its value does not fit the column."""
    return f"column {column.name} is no {column.type}" + (" exactly, as a key has to be" if _may_be_cut(column) else "")


def _may_be_cut(column: schema_ddl.Column) -> bool:
    return column.exact and column.word in (*DECIMALS, *TIMESTAMPS)


def is_count(text: Column) -> Column:
    """Whether a text in the place of a timestamp is a whole number."""
    return text.rlike(_WHOLE)


def of_text(text: Column, column: schema_ddl.Column, unit: str | None = None) -> Column:
    """A text as a value of a column of a simple type; null where it does not fit.

    Args:
        unit: what a number counts in the place of a TIMESTAMP: seconds, millis, micros or nanos; None: unknown.
    """
    match column.word:
        case "STRING":
            return F.try_validate_utf8(text)
        case "BINARY":
            return text.cast("binary")
        case _:
            return text_value(text, column, unit)


def exactly(value: Column, given: str, column: schema_ddl.Column, unit: str | None = None) -> Column:
    """A value of a simple type as a column's type; null where it would become another value, or does not fit.

    Args:
        given: the value's type. unit: as for `of_text`.
    """
    if schema_ddl.canonical(given) == schema_ddl.canonical(column.type):
        return value
    if schema_ddl.word_of(given) == "STRING":
        return of_text(value, column._replace(exact=True), unit)
    found = value.try_cast(column.type)
    return F.when(found.try_cast(given) == value, found)


def as_float(number: Column) -> Column:
    """A DOUBLE as the nearest FLOAT; null where the FLOAT would be infinite and the number is not."""
    found = number.cast("float")
    return F.when((F.abs(found) != _INFINITE) | (F.abs(number) == _INFINITE), found)
