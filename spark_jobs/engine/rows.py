"""Reads results that have one row."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row


def one_row(result: DataFrame) -> Row:
    """The first row of a result that always has one, such as an aggregate of a whole frame."""
    row = result.first()
    assert row is not None, "the caller asks for results that have a row"
    return row
