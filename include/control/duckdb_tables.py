"""Brings parts of Delta tables, and rows of our own, into a DuckDB database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from include.lake.delta_tables import open_table, query_arrow
from include.lake.uri import LakeUri
from include.participants.settled_records import Part


def whole(uri: LakeUri) -> Sequence[Part]:
    """All rows of a table; nothing if there is none."""
    table = open_table(uri)
    return () if table is None else ((table, "true"),)


def register(
    database: duckdb.DuckDBPyConnection, name: str, parts: Sequence[Part], leave_out: Sequence[str] = ()
) -> bool:
    """Registers parts of a table under a name; False if there are none. Columns that are left out are null."""
    found = []
    for table, which in parts:
        names = [field.name for field in table.schema().fields]
        columns = ", ".join(f'cast(null as bytea) as "{n}"' if n in leave_out else f'"{n}"' for n in names)
        found.append(query_arrow(table, f"select {columns} from t where {which}"))
    if found:
        database.register(name, pa.concat_tables(found, promote_options="default"))
    return bool(found)


def with_columns(database: duckdb.DuckDBPyConnection, name: str, optional: Mapping[str, str]) -> str:
    """SQL for a table with columns that it may lack.

    Args:
        optional: types by column.
    """
    there = {column for column, *_ in database.execute(f'DESCRIBE "{name}"').fetchall()}
    missing = "".join(f", CAST(NULL AS {type_}) AS {n}" for n, type_ in optional.items() if n not in there)
    return f'SELECT *{missing} FROM "{name}"'


def table_of_rows(columns: Mapping[str, pa.DataType], rows: Sequence[tuple]) -> pa.Table:
    """Rows as a table. Args: columns: their types by name."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(list(v), type=type_) for v, type_ in zip(values, columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, names=list(columns))
