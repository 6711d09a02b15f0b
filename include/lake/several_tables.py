"""Queries several tables together, each as of its own version. No JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import QueryBuilder

from include.lake.arrow import table_of
from include.lake.damage import on_one_line
from include.lake.delta_tables import OpenedTable
from include.lake.sql import sql_name
from include.protocol.errors import TerminalError

_READS = ("select", "with", "values", "(", "explain", "describe", "show")


@dataclass(frozen=True)
class NamedTable:
    """A table as a query sees it.

    Args:
        names: by which it is called, each with the schema that it is in; None: in none. condition: SQL on its rows;
            others are hidden.
    """

    names: Sequence[tuple[str | None, str]]
    table: OpenedTable
    condition: str = "true"


def query_tables(tables: Sequence[NamedTable], sql: str) -> pa.Table:
    """The rows of a query (DataFusion's SQL).

    Raises:
        TerminalError: it cannot be answered: there is no such table or column, or it is no query.
    """
    if not sql.lstrip().lower().startswith(_READS):
        raise _refused(sql, "a query that reads, such as SELECT", next(iter(sql.split(maxsplit=1)), "nothing"))
    builder = QueryBuilder()
    for new in sorted({schema for table in tables for schema, _ in table.names if schema is not None}):
        builder.execute(f"CREATE SCHEMA {sql_name(new)}").read_all()
    for number, one in enumerate(tables):
        builder = builder.register(f"lakemark_{number}", one.table)
        for schema, name in one.names:
            view = sql_name(name) if schema is None else f"{sql_name(schema)}.{sql_name(name)}"
            rows = f"SELECT * FROM lakemark_{number} WHERE {one.condition}"
            builder.execute(f"CREATE VIEW {view} AS {rows}").read_all()
    try:
        return table_of(builder.execute(sql).read_all())
    except Exception as error:  # DataFusion's errors have no class of their own
        names = ", ".join(".".join(filter(None, name)) for table in tables for name in table.names)
        raise _refused(sql, f"SQL of DataFusion over the tables {names}", on_one_line(error)) from error


def _refused(sql: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this query cannot be answered",
        where=sql[:500],
        expected=expected,
        found=found,
        action="change the query; if a file of a table is missing, `lakemark checkpoint list NAME` says which "
        "checkpoints are whole",
    )
