"""Calls Lakemark's own SQL functions.

The Java files in `include/installation` explain why Spark's own functions are not enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import schema_ddl


def json_row(bytes_: Column, type_: str, unit: str | None = None) -> Column:
    """The fields of a JSON object: `STRUCT<problem: STRING, lost: STRING, row: type_>`; null: there are no bytes.

    `problem` says why the bytes are not one JSON object. `lost` gives the reason for the first field that became null.
    Each is null if there is nothing to say.

    Args:
        type_: a STRUCT (`struct_of`), or a MAP of STRING to anything; a VARIANT in it stands for a value's JSON, which
            is a STRING.
        unit: what a number counts in the place of a TIMESTAMP: seconds, millis, micros or nanos; None: unknown.
    """
    return _called("json_row", bytes_, F.lit(None).cast(type_), F.lit(unit).cast("string"))


def struct_of(columns: Iterable[schema_ddl.Column], marks: bool = True) -> str:
    """The type of a struct of columns.

    Args:
        marks: exact columns carry the mark by which Lakemark's functions know them.
    """
    return f"STRUCT<{', '.join(_field(column, marks) for column in columns)}>"


def text_value(text: Column, column: schema_ddl.Column, unit: str | Column | None) -> Column:
    """A text as a value of a column whose type is simple, and neither STRING nor BINARY; null: it does not fit.

    Args:
        unit: as for `json_row`. A column of units is never null: any other word means that the unit is unknown.
    """
    counted = unit if isinstance(unit, Column) else F.lit(unit).cast("string")
    return _called("text_value", text, F.lit(None).cast(struct_of([column])), counted)


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """The text of a decimal as Kafka Connect writes it; null where it fits no DECIMAL.

    Args:
        unscaled: bytes, a big-endian two's complement integer. scale: int.
    """
    return _called("decimal_text", F.when(scale.isNotNull(), unscaled), F.coalesce(scale, F.lit(0)))


def csv_fields(line: Column, delimiter: str, quote: str, escape: str) -> Column:
    """The fields of a line of CSV, array of strings; null: it is no such line."""
    return _called("csv_fields", line, *map(F.lit, (delimiter, quote, escape)))


def _field(column: schema_ddl.Column, marks: bool) -> str:
    return f"{spark_name(column.name)}: {column.type}" + (" COMMENT 'exact'" if marks and column.exact else "")


def _called(name: str, given: Column, *others: Column) -> Column:
    """Calls the function only where `given` is not null. If a CASE is null, Spark passes the CASE's value from the
    previous record to a catalog's function."""
    return F.when(given.isNotNull(), F.call_function(f"lakemark.{name}", given, *others))
