"""What has to be done to a table when the pipeline file declares other columns than it has. Pure.

A change of meaning is never guessed: what may be a rename, or needs values to be read anew, is an error that shows the
old, the new and the choices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from include.protocol.errors import SchemaChanged
from include.schema_ddl import Column, fields_of, nested, split

Policy = Literal["add_columns", "rescue", "fail"]
_WORDS = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}


KEYS = "lakemark.keys"  # table property: JSON list of the columns that a row of the table is known by


def verify_keys(pipeline: str, table: str, declared: Sequence[str], found: str | None) -> bool:
    """Whether the table has yet to be told its keys: one that an earlier Lakemark made.

    Args:
        declared: the pipeline file's. found: the table's property `KEYS`.

    Raises:
        SchemaChanged: its rows are known by other columns. With fewer of them a change would meet several rows, with
            more of them a row and the one that was to take its place would both stay.
    """
    if found is None:
        return True
    old = json.loads(found)
    if set(old) != set(declared):
        raise _changed(
            f"{table}, change.keys",
            ", ".join(old),
            ", ".join(declared),
            f"declare the old keys again; or {_anew(pipeline)}",
        )
    return False


def columns_to_add(
    pipeline: str, where: str, declared: Sequence[Column], found: Mapping[str, str], policy: Policy
) -> tuple[Column, ...]:
    """The columns that the table lacks.

    Args:
        declared: what the pipeline file says, and the lineage. found: the table's columns and their types, as
            `canonical` writes them.

    Raises:
        SchemaChanged: a type differs, the policy is `fail`, or a column may have been renamed.
    """
    by_name = {name.lower(): type_ for name, type_ in found.items()}
    added = tuple(column for column in declared if column.name.lower() not in by_name)
    for column in declared:
        old, new = by_name.get(column.name.lower()), canonical(column.type)
        if old is not None and old != new:
            raise _changed(
                f"{where}, column {column.name}",
                old,
                new,
                f"declare the old type again; or {_anew(pipeline)}",
            )
    known = {column.name.lower() for column in declared}
    left = [name for name in found if name.lower() not in known]
    if added and left:
        raise _changed(
            where,
            f"columns {', '.join(left)}, which the file does not declare",
            f"columns {', '.join(column.name for column in added)}, which the table lacks",
            "one may be the other's new name, which nobody can tell but you. If so, rename it in the table, or "
            f"{_anew(pipeline)}; if not, declare the old columns too, or drop them "
            "from the table, and then add the new ones",
        )
    if added and policy == "fail":
        raise _changed(
            where,
            "no such columns",
            ", ".join(f"{column.name} {column.type}" for column in added),
            "add them to the table yourself, or say `on_schema_change: add_columns`",
        )
    return added


def canonical(type_: str) -> str:
    """A type of Spark's DDL, one way of writing for each: `STRUCT<a:INT,b:DECIMAL(10,2)>`."""
    text = type_.strip()
    found = nested(text)
    if found is None:
        word, arguments = re.fullmatch(r"(\w+)\s*(\(.*\))?", text).groups()  # type: ignore[union-attr]
        name = _WORDS.get(word.upper(), word.upper())
        given = re.sub(r"\s", "", arguments or "")
        if name == "DECIMAL":
            given = {"": "(10,0)"}.get(given, given if "," in given else given.replace(")", ",0)"))
        return name + given
    kind, parts = found
    if kind == "STRUCT":
        inner = ",".join(f"{field.name}:{canonical(field.type)}" for field in fields_of(parts))
    else:
        inner = ",".join(map(canonical, split(parts)))
    return f"{kind}<{inner}>"


def of_delta(type_: Any) -> str:
    """A type of a Delta table's schema (Delta protocol, "Schema Serialization Format"), as `canonical` writes it."""
    match type_:
        case {"type": "struct", "fields": fields}:
            return "STRUCT<" + ",".join(f"{field['name']}:{of_delta(field['type'])}" for field in fields) + ">"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{of_delta(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{of_delta(key)},{of_delta(value)}>"
        case _:
            return canonical(str(type_))


def _anew(pipeline: str) -> str:
    return (
        f"fill a new table as the file says, which then takes this one's place: `lakemark backfill {pipeline} "
        "--into-new-table`"
    )


def _changed(where: str, old: str, new: str, action: str) -> SchemaChanged:
    return SchemaChanged(
        what="the pipeline file declares other columns than the table has; nothing was changed",
        where=where,
        expected=f"what the table has: {old}",
        found=f"what the file says: {new}",
        action=action,
    )
