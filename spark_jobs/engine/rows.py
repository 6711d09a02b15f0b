"""Rows that a query brings to the driver."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row


def first_row(frame: DataFrame) -> Row:
    """The first row of a query that has at least one, as every aggregate without groups does."""
    row = frame.first()
    assert row is not None, "the query has at least one row"
    return row
