"""The fields of JSON objects, by `lakemark.json_row` (`include/installation`: JsonRow.java says why not by Spark's own
`from_json`)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def json_row(bytes_: Column, type_: str, unit: str | None = None) -> Column:
    """`STRUCT<problem: STRING, lost: STRING, row: type_>`; null: there are no bytes.

    `problem` says why the bytes are not one JSON object, `lost` why one of its fields is null in the row (the first of
    them); each is null if there is nothing to say.

    Args:
        type_: a STRUCT, or a MAP of STRING to anything; a VARIANT in it stands for a value's JSON, which is a STRING.
        unit: seconds, millis, micros or nanos: what a number is that stands for a TIMESTAMP; None: nobody knows.
    """
    asked, counted = F.lit(None).cast(type_), F.lit(unit).cast("string")
    return F.call_function("lakemark.json_row", bytes_, asked, counted)
