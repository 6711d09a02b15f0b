"""What the texts and numbers of a record become as their declared types, where Spark's own reading of them would guess,
or work for hours.

A format reads such values as they are written (`wire_type`), and `typed` makes of them what is declared: null where
that cannot be. `is_lost` tells such a null from one that the record holds.

| declared | what is taken |
| --- | --- |
| DATE | year-month-day; with a time only if that is midnight |
| TIMESTAMP | year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known |
| DECIMAL, FLOAT, DOUBLE | a number; one with more decimal places than are declared is rounded, as Spark's casts round |
| STRING | text; bytes that are not UTF-8 are none |

Years beyond 1 to 9999 are none: most readers of tables have no such moments.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.schema_ddl import DECIMALS, TIMESTAMPS, WHOLE, fields_of, nested, scale_of, split, word_of
from include.schema_ddl import Column as SchemaColumn
from spark_jobs.formats.moments import moment, within_years

_DOUBLES = ("FLOAT", "REAL", "DOUBLE")
_BYTES = ("TINYINT", "BYTE")
_INFINITE = float("inf")
_EXACT_MAX = 2.0**49  # of a double whose digits are right to the last place that is kept

# `\z` is the end; before a last line feed, too, is `$`.
_DATE = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00(:00(\.0+)?)?Z?)?\z"
_WHOLE = r"^-?[0-9]{1,19}\z"
# Few digits, and a small exponent: a computer needs days for `1e999999999` as a decimal.
_NUMBER = r"^[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?\z"
_INTEGER = r"^[+-]?[0-9]+\z"
_NOT_FINITE = r"^([+-]?(Infinity|INF|Inf)|NaN)\z"

Spoken = Callable[[str], str | None]  # the type that a format reads a simple type as; None: as itself


def in_json(word: str) -> str | None:
    """Spark reads JSON's numbers as well, and sooner; but it takes 200 for the TINYINT -56."""
    if word in TIMESTAMPS or word == "DATE":
        return "STRING"
    if word in _BYTES:
        return "SMALLINT"
    return "DOUBLE" if word in ("FLOAT", "REAL") else None


def in_json_with_odd_numbers(word: str) -> str | None:
    """The same where a text may be a number that Spark's parser would read otherwise, or for hours."""
    return "VARIANT" if word in DECIMALS else in_json(word)


def in_text(word: str) -> str | None:
    """Where all values are texts."""
    return "STRING" if word in (*DECIMALS, *_DOUBLES, *TIMESTAMPS, "DATE") else None


def wire_type(type_: str, read_as: Spoken) -> str:
    """A declared type, as a format reads it."""
    match nested(type_):
        case ("STRUCT", inner):
            fields = (f"`{field.name}`: {wire_type(field.type, read_as)}" for field in fields_of(inner))
            return f"STRUCT<{', '.join(fields)}>"
        case (kind, inner):
            return f"{kind}<{', '.join(wire_type(part, read_as) for part in split(inner))}>"
        case _:
            return read_as(word_of(type_)) or type_


def typed(raw: Column, type_: str, read_as: Spoken, unit: str | None) -> Column:
    """A value of `wire_type` as its declared type; null where it cannot be that.

    Args:
        unit: seconds, millis, micros or nanos: what a number is that stands for a TIMESTAMP; None: nobody knows.
    """
    if wire_type(type_, read_as) == type_:
        return raw
    match nested(type_):
        case ("STRUCT", inner):
            fields = (typed(raw[f.name], f.type, read_as, unit).alias(f.name) for f in fields_of(inner))
            return F.when(raw.isNotNull(), F.struct(*fields))
        case ("ARRAY", inner):
            return F.transform(raw, lambda item: typed(item, inner, read_as, unit))
        case ("MAP", inner):
            of_value = split(inner)[1]
            return F.transform_values(raw, lambda _, value: typed(value, of_value, read_as, unit))
        case _:
            match read_as(word_of(type_)):
                case "STRING":
                    return of_text(raw, type_, unit)
                case "VARIANT":
                    text = F.when(F.schema_of_variant(raw) == "STRING", F.try_variant_get(raw, "$", "string"))
                    return F.coalesce(of_text(text, type_), decimal_of_number(raw, type_))
                case _:
                    return _narrowed(raw, type_)


def is_lost(raw: Column, value: Column, type_: str, read_as: Spoken) -> Column:
    """Whether `typed` has made null of anything that is not."""
    match nested(type_):
        case _ if wire_type(type_, read_as) == type_:
            return F.lit(False)
        case ("STRUCT", inner):
            lost = (is_lost(raw[f.name], value[f.name], f.type, read_as) for f in fields_of(inner))
            return F.array_contains(F.array(*lost), True)
        case ("ARRAY", inner):
            return _any_lost(raw, value, inner, read_as)
        case ("MAP", inner):
            return _any_lost(F.map_values(raw), F.map_values(value), split(inner)[1], read_as)
        case _ if read_as(word_of(type_)) == "VARIANT":
            return raw.isNotNull() & ~F.is_variant_null(raw) & value.isNull()
        case _:
            return raw.isNotNull() & value.isNull()


def _any_lost(raw: Column, value: Column, type_: str, read_as: Spoken) -> Column:
    lost = F.zip_with(raw, value, lambda one, other: is_lost(one, other, type_, read_as))
    return F.coalesce(F.exists(lost, lambda found: found), F.lit(False))


def not_of_type(column: SchemaColumn, raw: Column, unit: str | None) -> Column:
    """Why the value of a column is lost, string."""
    reason = F.lit(f"column {column.name} is no {column.type}")
    if column.word not in TIMESTAMPS or unit is not None:
        return reason
    unknown = f"column {column.name} is a number, and source.timestamps does not say what it counts"
    return F.when(raw.rlike(_WHOLE), unknown).otherwise(reason)


def of_text(text: Column, type_: str, unit: str | None = None) -> Column:
    """A text as a simple type; null where it cannot be that. Args: unit: as for `typed`."""
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
        plain = (F.length(text) <= 40) & ~text.contains("e") & ~text.contains("E")
        return F.when(plain, text.try_cast(type_)).when(text.rlike(_NUMBER), text.try_cast(type_))
    if word in _DOUBLES:
        number = F.when(text.rlike(_NUMBER), text).try_cast("double")
        finite = F.when(F.abs(number) != _INFINITE, number)
        found = F.coalesce(finite, F.when(text.rlike(_NOT_FINITE), text).try_cast("double"))
        return found if word == "DOUBLE" else as_float(found)
    if word in WHOLE:  # a cast passes over white space and control characters around it
        return F.when(text.rlike(_INTEGER), text).try_cast(type_)
    return text.try_cast(type_)


def decimal_of_number(raw: Column, type_: str) -> Column:
    """A variant's number as a DECIMAL; null of all else, and of a number that the variant holds as a double which has
    fewer digits."""
    kind = F.schema_of_variant(raw)
    exact = F.when(kind.startswith("DECIMAL") | (kind == "BIGINT"), F.try_variant_get(raw, "$", type_))
    double = F.when(kind == "DOUBLE", F.try_variant_get(raw, "$", "double"))
    return F.coalesce(exact, F.when(F.abs(double) < _EXACT_MAX / 10 ** scale_of(type_), double).try_cast(type_))


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


def _narrowed(number: Column, type_: str) -> Column:
    """A number of a wider type than is declared; null where the declared one has none like it."""
    return number.try_cast(type_) if word_of(type_) in _BYTES else as_float(number)


def as_float(number: Column) -> Column:
    """A DOUBLE as the nearest FLOAT; null where that would be infinite and the number is not."""
    found = number.cast("float")
    return F.when((F.abs(found) != _INFINITE) | (F.abs(number) == _INFINITE), found)
