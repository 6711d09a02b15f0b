"""Reads Confluent's wire format: a zero byte and the schema's id in the registry come before the record.

Source: Confluent's documentation of its serializers, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.sources.schema_registry import NoSchema

NOT_FRAMED = "not in the wire format of a schema registry: a zero byte and the id of a schema come first"
_SCHEMAS_MAX = 1_000  # the most schemas that one batch reads from the registry


def schema_id(framed: Column) -> Column:
    """The schema's id, bigint; null for bytes that are not framed."""
    is_framed = (F.length(framed) > 5) & (F.hex(F.substring(framed, 1, 1)) == "00")
    return F.when(is_framed, F.conv(F.hex(F.substring(framed, 2, 4)), 16, 10).cast("bigint"))


def schema_ids(records: DataFrame, column: str) -> list[int]:
    """The most frequent ids among the records: bytes that only look framed may name any number of ids."""
    found = records.where(F.col(column).isNotNull()).groupBy(column).count()
    return sorted(row[column] for row in found.orderBy(F.desc("count"), column).limit(_SCHEMAS_MAX).collect())


def unreadable(number: Column, schemas: Mapping[int, object]) -> Column:
    """Why a record cannot be read by the schema that it names, string; null: it can.

    Args:
        number: as `schema_id` returns it. schemas: by number; some are `NoSchema`.
    """
    if not schemas:
        return F.lit(NOT_FRAMED)
    reasons = {number: schema.reason for number, schema in schemas.items() if isinstance(schema, NoSchema)}
    said = F.create_map(*(F.lit(part) for pair in reasons.items() for part in pair))[number] if reasons else F.lit(None)
    return (
        F.when(number.isNull(), NOT_FRAMED)
        .when(~number.isin(*schemas), f"more than {_SCHEMAS_MAX} schemas in one batch")
        .otherwise(said)
    )
