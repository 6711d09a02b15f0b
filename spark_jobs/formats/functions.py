"""Lakemark's own SQL functions (`include/installation`: Functions.java says why they are not Spark's)."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.pipeline_file import schema_ddl


def json_row(bytes_: Column, type_: str, unit: str | None = None) -> Column:
    """The fields of a JSON object: `STRUCT<problem: STRING, lost: STRING, row: type_>`; null: there are no bytes.

    `problem` says why the bytes are not one JSON object, `lost` why one of its fields is null in the row (the first of
    them); each is null if there is nothing to say.

    Args:
        type_: a STRUCT (`struct_of`), or a MAP of STRING to anything; a VARIANT in it stands for a value's JSON, which
            is a STRING.
        unit: seconds, millis, micros or nanos: what a number is that stands for a TIMESTAMP; None: nobody knows.
    """
    return _called("json_row", bytes_, F.lit(None).cast(type_), F.lit(unit).cast("string"))


def struct_of(columns: Iterable[schema_ddl.Column]) -> str:
    """The type of a struct of columns."""
    return f"STRUCT<{', '.join(map(_field, columns))}>"


def text_value(text: Column, column: schema_ddl.Column, unit: str | Column | None) -> Column:
    """A text as a value of a column whose type is simple, and neither STRING nor BINARY; null: it is none.

    Args:
        unit: as for `json_row`; a column is never null: any other word says that nobody knows.
    """
    counted = unit if isinstance(unit, Column) else F.lit(unit).cast("string")
    return _called("text_value", text, F.lit(None).cast(struct_of([column])), counted)


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """The text of a decimal as Kafka Connect writes it; null where no DECIMAL has room for it.

    Args:
        unscaled: bytes, a big-endian two's complement integer. scale: int.
    """
    return _called("decimal_text", F.when(scale.isNotNull(), unscaled), F.coalesce(scale, F.lit(0)))


def csv_fields(line: Column, delimiter: str, quote: str, escape: str) -> Column:
    """The fields of a line, array of strings; null: it is none."""
    return _called("csv_fields", line, *map(F.lit, (delimiter, quote, escape)))


def _field(column: schema_ddl.Column) -> str:
    return f"`{column.name}`: {column.type}" + (" COMMENT 'exact'" if column.exact else "")


def _called(name: str, given: Column, *others: Column) -> Column:
    """Asked only where there is something to ask: of a CASE that is null Spark hands a function of a catalog what the
    CASE was for the record before."""
    return F.when(given.isNotNull(), F.call_function(f"lakemark.{name}", given, *others))
