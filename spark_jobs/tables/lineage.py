"""Defines the struct column `_lakemark` of every row: where its present state comes from, and its order (I9).

A row does not say twice what it can say once. Where a column orders changes, its value in the row is the order's (a
tombstone keeps it, too); and topic, partition and offset, which decide ties, are the lineage's own. What remains of an
order stands in `change_order`.

Older tables have the whole order in `change_order`. Their old rows say it there, their new rows as all rows do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from include.lake.merge.order import Path, Value
from include.lake.sql import spark_name, spark_text
from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_change import KNOWS, struct_fields
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.formats.functions import struct_of

CHANGE_ORDER, VALID_AT_FIELD = "change_order", "valid_at"
_OF_BATCH = Column("generation", "INT"), Column("batch_id", "BIGINT")
STAMP: Path = (LINEAGE, "offset")  # null in a row of another writer
_TIES = {"_topic": "topic", "_partition": "partition", "_offset": "offset"}


def order_fields(spec: TableSpec) -> tuple[Column, ...]:
    """The fields of the change order; the first one weighs most."""
    position = Column("_topic", "STRING"), Column("_partition", "INT"), Column("_offset", "BIGINT")
    return (*(Column(field.name, field.type) for field in spec.order), *position)


def order_type(spec: TableSpec) -> str:
    return struct_of(order_fields(spec), marks=False)


def lineage_fields(spec: TableSpec, there: str | None = None, with_batch: bool = True) -> tuple[Column, ...]:
    """The fields that every table's lineage has.

    Args:
        there: the type of the lineage that a table has; None: the form of changes, and of a table that is made now.
        with_batch: false: of changes that are not kept yet (`changes.stamp`).
    """
    kept = [Column(field.name, field.type) for field in spec.order if field.of != "column"]
    held = order_fields(spec) if there is not None and _is_whole(there) else kept
    return (
        Column("topic", "STRING"),
        Column("partition", "INT"),
        Column("offset", "BIGINT"),
        *([Column(CHANGE_ORDER, struct_of(held, marks=False))] if held else []),
        Column("deleted", "BOOLEAN"),
        *(_OF_BATCH if with_batch else ()),
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


def lineage_column(spec: TableSpec, more: Iterable[Column] = (), there: str | None = None) -> Column:
    """The column `_lakemark`.

    Args:
        more: fields that the table's kind needs. there: as for `lineage_fields`.
    """
    return Column(LINEAGE, struct_of((*lineage_fields(spec, there), *more), marks=False))


def lineage_in(columns: Mapping[str, str] | None) -> str | None:
    """The type of the lineage among a table's columns (their types by name)."""
    return None if columns is None else columns.get(LINEAGE)


def order_values(spec: TableSpec, lineage: str | None = None) -> dict[str, Value]:
    """Where a row says the fields of its order, by their names, the one that weighs most first.

    Args:
        lineage: the type of the row's lineage; None: the form of changes.
    """
    found: dict[str, Path] = {
        f.name: (f.name,) if f.of == "column" else (LINEAGE, CHANGE_ORDER, f.name) for f in spec.order
    }
    found |= {tie: (LINEAGE, name) for tie, name in _TIES.items()}
    if lineage is None or not _is_whole(lineage):
        return {name: (path,) for name, path in found.items()}
    # In an old row both are the same, but for tombstones: there, only the order says it.
    return {name: tuple(dict.fromkeys([(LINEAGE, CHANGE_ORDER, name), path])) for name, path in found.items()}


def order_of(spec: TableSpec, lineage: str | None = None, row: str = "") -> str:
    """SQL for the order of a row, a struct of the type `order_type`.

    Args:
        lineage: as for `order_values`. row: what its columns are called by, with a dot (`target.`).
    """
    return named_struct({name: first_of(paths, row) for name, paths in order_values(spec, lineage).items()})


def is_ours(row: str = "") -> str:
    """SQL condition: a row has a place in the order. A row from another writer has none."""
    return f"{first_of([STAMP], row)} IS NOT NULL"


def valid_at(spec: TableSpec, lineage: str) -> str:
    """SQL for the time from which the change of a row of history is valid.

    Args:
        lineage: the type of the row's lineage.
    """
    assert spec.valid_from is not None, "the table is history"
    own: list[Path] = [(LINEAGE, VALID_AT_FIELD)] if VALID_AT_FIELD in struct_fields(lineage) else []
    return first_of([*own, *([(spec.valid_from.name,)] if spec.valid_from.of == "column" else [])])


def valid_at_fields(spec: TableSpec, there: str | None) -> list[Column]:
    """The lineage's field for that time, if no column has it. Args: there: as for `lineage_fields`."""
    assert spec.valid_from is not None, "the table is history"
    is_there = there is not None and VALID_AT_FIELD in struct_fields(there)
    is_needed = spec.valid_from.of != "column" or is_there
    return [Column(VALID_AT_FIELD, spec.valid_from.type)] if is_needed else []


def in_form(spec: TableSpec, lineage: str, row: str = "") -> dict[str, str]:
    """SQL for the fields that every table's lineage has, from a change, by their names and in the order of a table's.

    Args:
        lineage: the type of the table's lineage. row: as for `order_of`.
    """
    own = {field.name: first_of([(LINEAGE, field.name)], row) for field in lineage_fields(spec)}
    if _is_whole(lineage):
        kept = {field.name for field in spec.order if field.of != "column"}
        held = {
            field.name: first_of([(LINEAGE, CHANGE_ORDER, field.name)], row)
            if field.name in kept
            else f"CAST(NULL AS {field.type})"
            for field in order_fields(spec)
        }
        own[CHANGE_ORDER] = named_struct(held) if kept else f"CAST(NULL AS {order_type(spec)})"
    return {name: own[name] for name in struct_fields(lineage) if name in own}


def first_of(paths: Sequence[Path], row: str = "") -> str:
    """SQL for the first of some columns or fields that is not null. Args: row: as for `order_of`."""
    found = [row + ".".join(map(spark_name, path)) for path in paths]
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


def named_struct(fields: Mapping[str, str]) -> str:
    return "named_struct(" + ", ".join(f"{spark_text(name)}, {value}" for name, value in fields.items()) + ")"


def _is_whole(lineage: str) -> bool:
    """Whether old rows say their whole order there."""
    return "_offset" in struct_fields(struct_fields(lineage).get(CHANGE_ORDER, ""))
