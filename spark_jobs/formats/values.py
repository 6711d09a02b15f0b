"""What texts become as declared types, where Spark's own reading of them would guess, or work for hours.

| declared | what is taken |
| --- | --- |
| DATE | year-month-day; with a time only if that is midnight |
| TIMESTAMP | year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known |
| DECIMAL, FLOAT, DOUBLE | a number; one with more decimal places than are declared is rounded, as Spark's casts round |
| STRING | text; bytes that are not UTF-8 are none |

Years beyond 1 to 9999 are none: most readers of tables have no such moments. The same rules for JSON are in
`include/installation`: JsonValues.java.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.schema_ddl import DECIMALS, DOUBLES, TIMESTAMPS, WHOLE, word_of
from spark_jobs.formats.moments import moment, within_years

_INFINITE = float("inf")

# `\z` is the end; before a last line feed, too, is `$`.
_DATE = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00(:00(\.0+)?)?Z?)?\z"
_WHOLE = r"^-?[0-9]{1,19}\z"
# Few digits, and a small exponent: a computer needs days for `1e999999999` as a decimal.
_NUMBER = r"^[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?0{0,400}[0-9]{1,3})?\z"
_INTEGER = r"^[+-]?[0-9]+\z"
_NOT_FINITE = r"^([+-]?(Infinity|INF|Inf)|NaN)\z"


def is_count(text: Column) -> Column:
    """Whether a text in the place of a moment is a whole number."""
    return text.rlike(_WHOLE)


def of_text(text: Column, type_: str, unit: str | None = None) -> Column:
    """A text as a simple type; null where it cannot be that.

    Args:
        unit: seconds, millis, micros or nanos: what a number is that stands for a TIMESTAMP; None: nobody knows.
    """
    word = word_of(type_)
    if word == "STRING":
        return F.try_validate_utf8(text)
    if word == "DATE":
        day = F.substring_index(F.substring_index(text, "T", 1), " ", 1)
        return within_years(F.when(text.rlike(_DATE), day.try_cast("date")))
    if word in TIMESTAMPS:
        return _timestamp(text, word, unit)
    if word in DECIMALS:
        # Most are short and have no exponent, which is sooner seen than all that a number may be.
        plain = (F.length(text) <= 40) & (F.translate(text, "0123456789.+-", "") == "")
        return F.when(plain, text.try_cast(type_)).when(text.rlike(_NUMBER), text.try_cast(type_))
    if word in DOUBLES:
        number = F.when(text.rlike(_NUMBER), text).try_cast("double")
        finite = F.when(F.abs(number) != _INFINITE, number)
        found = F.coalesce(finite, F.when(text.rlike(_NOT_FINITE), text).try_cast("double"))
        return found if word == "DOUBLE" else as_float(found)
    if word in WHOLE:  # a cast passes over white space and control characters around it
        return F.when(text.rlike(_INTEGER), text).try_cast(type_)
    return text.try_cast(type_)


def _timestamp(text: Column, word: str, unit: str | None) -> Column:
    """Of a text that begins with year-month-day; or a number, if it is known what that counts."""
    begins_with_day = (F.substr(text, F.lit(5), F.lit(1)) == "-") & (
        (F.substr(text, F.lit(8), F.lit(1)) == "-") | (F.substr(text, F.lit(7), F.lit(1)) == "-")
    )
    # Where the year is not the first or the last one, no offset from UTC leads beyond them.
    inside = (text >= "0002") & (text < "9999")
    # Names of zones are not read: to Java BST is in Bangladesh, and some hours come twice a year, or never.
    is_named = F.translate(F.substr(text, F.lit(11)), "0123456789:.+-TZ ", "") != ""
    read = F.when(~is_named, text).try_cast(word)
    found = F.when(begins_with_day & inside, read).when(begins_with_day, within_years(read))
    if unit is None:
        return found
    count = F.when(text.rlike(_WHOLE), text).try_cast("bigint")
    return found.otherwise(moment(count, F.lit(unit)).cast(word))


def as_float(number: Column) -> Column:
    """A DOUBLE as the nearest FLOAT; null where that would be infinite and the number is not."""
    found = number.cast("float")
    return F.when((F.abs(found) != _INFINITE) | (F.abs(number) == _INFINITE), found)
