"""Decides what must happen to a table when the pipeline file declares other columns than it has. Pure.

It never guesses a change of meaning. If a column may have been renamed, or if values must be read again, there is an
error that shows the old, the new and the choices. Lakemark's own column `_lakemark` grows with the columns, since it
has a place for each column that changes may leave out. Everything else in it says what kind of table it is and how
changes are ordered, and never changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_ddl import Column, canonical, fields_of, named, nested
from include.protocol.errors import SchemaChanged
from include.protocol.json_data import JsonMapping

SchemaChangePolicy = Literal["add_columns", "rescue", "fail"]
COLUMN_ORDER, KNOWS, ABSENT_FIELD = "column_order", "knows", "absent"  # fields of the lineage about columns
_GROWING = (COLUMN_ORDER, KNOWS, ABSENT_FIELD)


class Added(NamedTuple):
    """A column to add to a table, or a field to add to its column `_lakemark`."""

    path: tuple[str, ...]
    type: str

    def __str__(self) -> str:
        return f"{'.'.join(map(named, self.path))} {self.type}"


KEYS = "lakemark.keys"  # table property: JSON list of the columns that identify a row
ORDER = "lakemark.order"  # table property: JSON list of what orders changes, as in `change.order_by`


def verify_keys(anew: str, table: str, declared: Sequence[str], found: str | None) -> None:
    """Checks the table's property `KEYS`.

    Args:
        anew: how a person gets a table as the file declares it. declared: the pipeline file's keys. found: the table's
            property; None: an earlier Lakemark made the table, and did not say.

    Raises:
        SchemaChanged: other columns identify the table's rows. With fewer columns, a change would match several rows.
            With more, an old row would stay beside the row that should replace it.
    """
    if found is None:
        return
    old = json.loads(found)
    if set(old) != set(declared):
        raise _changed(
            f"{table}, change.keys",
            ", ".join(old),
            ", ".join(declared),
            f"declare the old keys again; or {anew}",
        )


def verify_order(anew: str, table: str, declared: Sequence[str], found: str | None) -> None:
    """Checks the table's property `ORDER`.

    Args:
        anew, found: as for `verify_keys`. declared: the pipeline file's order.

    Raises:
        SchemaChanged: something else orders the table's rows, so that no change can be compared with them.
    """
    if found is None:
        return
    old = json.loads(found)
    if old != list(declared):
        raise _changed(
            f"{table}, change.order_by",
            ", ".join(old) or "none",
            ", ".join(declared) or "none",
            f"declare the old order again; or {anew}",
        )


def columns_to_add(
    anew: str, where: str, declared: Sequence[Column], found: Mapping[str, str], policy: SchemaChangePolicy
) -> tuple[Added, ...]:
    """The columns that the table lacks, and the fields that its column `_lakemark` lacks.

    Args:
        anew: how a person gets a table as the file declares it. declared: the columns of the pipeline file, and the
            lineage. found: the table's columns and their types, in the form of `canonical`.

    Raises:
        SchemaChanged: a type differs, the policy is `fail`, or a column may have been renamed, or has another spelling.
    """
    _verify_spelling(anew, where, declared, found)
    added = tuple(Added((column.name,), column.type) for column in declared if column.name not in found)
    fields: list[Added] = []
    for column in declared:
        old, new = found.get(column.name), canonical(column.type)
        if old is not None and old != new and column.name == LINEAGE:
            fields += _fields_to_add(anew, where, old, new)
        elif old is not None and old != new:
            raise _other_type(anew, f"{where}, column {column.name}", old, new)
    known = {column.name for column in declared}
    left = [name for name in found if name not in known]
    if added and left:
        raise _changed(
            where,
            f"columns {', '.join(left)}, which the file does not declare",
            f"columns {', '.join(column.path[0] for column in added)}, which the table lacks",
            "one may be the new name of the other, and only you can know. If so, rename it in the table, or "
            f"{anew}; if not, declare the old columns too, or drop them "
            "from the table, and then add the new ones",
        )
    if added and policy == "fail":
        raise _changed(
            where,
            "no such columns",
            ", ".join(map(str, (*added, *fields))),
            "add them to the table yourself, or say `on_schema_change: add_columns`",
        )
    return (*added, *fields)


def _verify_spelling(anew: str, where: str, declared: Sequence[Column], found: Mapping[str, str]) -> None:
    """Raises SchemaChanged: a column differs from the table's in upper and lower case alone. For Spark both are the
    same. Rows of history name the columns that a change has left out, other engines tell them apart, and so do people's
    records."""
    own = {name.lower(): name for name in found}
    for column in declared:
        spelled = own.get(column.name.lower(), column.name)
        if spelled != column.name:
            raise _changed(
                f"{where}, column {column.name}",
                f"the column {spelled}, with other upper and lower case",
                column.name,
                f"spell it {spelled} (if records call it otherwise now, a transform can give it that name); or {anew}",
            )


def _fields_to_add(anew: str, where: str, old: str, new: str) -> Iterator[Added]:
    """The fields that the lineage lacks. Raises SchemaChanged if the kind of table differs, or the order."""
    there, wanted = struct_fields(old), struct_fields(new)
    of_table, of_file = ({n: type_ for n, type_ in of.items() if n not in _GROWING} for of in (there, wanted))
    if of_table != of_file:  # in any order
        raise _other_type(anew, f"{where}, column {LINEAGE}", old, new)
    for name, type_ in wanted.items():
        if name not in there:
            yield Added((LINEAGE, name), type_)
        elif there[name] != type_:
            field = f"{where}, column {LINEAGE}.{name}"
            yield from _inner_to_add(anew, field, (LINEAGE, name), old=there[name], new=type_)


def _inner_to_add(anew: str, where: str, path: tuple[str, ...], old: str, new: str) -> Iterator[Added]:
    there = {name.lower(): type_ for name, type_ in struct_fields(old).items()}
    if not there:
        raise _other_type(anew, where, old, new)
    for name, type_ in struct_fields(new).items():
        if name.lower() not in there:
            yield Added((*path, name), type_)
        elif there[name.lower()] != type_:
            raise _other_type(anew, where, old, new)


def struct_fields(type_: str) -> dict[str, str]:
    """Names and types of a STRUCT's fields, in order; none for any other type."""
    match nested(type_):
        case ("STRUCT", inner):
            return {field.name: field.type for field in fields_of(inner)}
        case _:
            return {}


def types_in(schema: str) -> dict[str, str]:
    """The types of columns by name. Args: schema: as a Delta table's log has it."""
    return {field["name"]: of_delta(field["type"]) for field in json.loads(schema)["fields"]}


def of_delta(type_: JsonMapping | str) -> str:
    """A type from a Delta table's schema (Delta protocol, "Schema Serialization Format") in the form of `canonical`."""
    if isinstance(type_, str):
        return canonical(type_)
    match type_:
        case {"type": "struct", "fields": fields}:
            return "STRUCT<" + ",".join(f"{named(f['name'])}:{of_delta(f['type'])}" for f in fields) + ">"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{of_delta(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{of_delta(key)},{of_delta(value)}>"
        case _:
            return canonical(str(type_))


def _other_type(anew: str, where: str, old: str, new: str) -> SchemaChanged:
    return _changed(where, old, new, f"declare the old type again; or {anew}")


def _changed(where: str, old: str, new: str, action: str) -> SchemaChanged:
    return SchemaChanged(
        what="the pipeline file declares other columns than the table has; nothing was changed",
        where=where,
        expected=f"what the table has: {old}",
        found=f"what the file says: {new}",
        action=action,
    )
