"""Defines the struct column `_lakemark` of every row: where its present state comes from, and its order (I9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_change import KNOWS
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.formats.functions import struct_of


def order_fields(spec: TableSpec) -> tuple[Column, ...]:
    """The fields of the change order; the first one weighs most."""
    position = Column("_topic", "STRING"), Column("_partition", "INT"), Column("_offset", "BIGINT")
    return (*(Column(field.name, field.type) for field in spec.order), *position)


def order_type(spec: TableSpec) -> str:
    return struct_of(order_fields(spec), marks=False)


def lineage_fields(spec: TableSpec) -> tuple[Column, ...]:
    """The fields that every table's lineage has."""
    return (
        Column("generation", "INT"),
        Column("batch_id", "BIGINT"),
        Column("topic", "STRING"),
        Column("partition", "INT"),
        Column("offset", "BIGINT"),
        Column("change_order", order_type(spec)),
        Column("deleted", "BOOLEAN"),
    )


def knows(spec: TableSpec, there: Collection[str] | None) -> list[Column]:
    """The lineage's field for columns that were added when the table had rows: true in rows written after that.

    Nobody knows whether an earlier change held such a column, so it counts as one that did not. A change that is read
    later, or again, and holds the column sets it, even if it is an older change (I9).

    Args:
        there: the table's columns; None: the table is made now, and every row will know all of them.
    """
    known = {name.lower() for name in (spec.partial_columns if there is None else there)}
    new = [Column(name, "BOOLEAN") for name in spec.partial_columns if name.lower() not in known]
    return [Column(KNOWS, struct_of(new, marks=False))] if new else []


def lineage_column(spec: TableSpec, more: Iterable[Column] = ()) -> Column:
    """The column `_lakemark`.

    Args:
        more: fields that the table's kind needs.
    """
    return Column(LINEAGE, struct_of((*lineage_fields(spec), *more), marks=False))
