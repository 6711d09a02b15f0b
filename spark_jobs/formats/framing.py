"""Confluent's wire format: a zero byte and the id of the schema in the registry come before the record.

Source: Confluent's documentation of its serializers, "Wire format".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NOT_FRAMED = "not in the wire format of a schema registry: a zero byte and the id of a schema come first"


def schema_id(framed: Column) -> Column:
    """bigint; null of bytes that are not framed."""
    is_framed = (F.length(framed) > 5) & (F.hex(F.substring(framed, 1, 1)) == "00")
    return F.when(is_framed, F.conv(F.hex(F.substring(framed, 2, 4)), 16, 10).cast("bigint"))


def schema_ids(records: DataFrame, column: str) -> list[int]:
    """Those among the records: few, however many records there are."""
    return sorted(row[column] for row in records.select(column).where(F.col(column).isNotNull()).distinct().collect())


def unknown_schema(number: int) -> str:
    return f"schema {number} is not in the registry"
