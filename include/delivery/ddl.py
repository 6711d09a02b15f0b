"""The statements that make what a sink needs in its database, and the least rights of who delivers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from include.delivery.sink_table import PROGRESS, SinkTable

_PROGRESS_COLUMNS = {
    "pipeline": "text NOT NULL",
    "sink": "text NOT NULL",
    "into_table": "text NOT NULL UNIQUE",  # one writer for each table
    "table_id": "text NOT NULL",
    "version": "bigint NOT NULL",
    "generation": "bigint NOT NULL",
    "batch_id": "bigint NOT NULL",
    "attempt_id": "text",
    "published_at": "timestamp with time zone NOT NULL DEFAULT now()",
}


def statements(table: SinkTable, there: Sequence[str] | None, user: str) -> list[str]:
    """The statements, in order; none if nothing is missing.

    Args:
        there: the columns that the sink's table has already; None: there is no such table. user: who delivers.
    """
    wanted = dict(zip(table.names, table.types, strict=True))
    wanted |= {table.flag: "boolean NOT NULL DEFAULT false"} if table.flag else {}
    made = [] if there is not None else [_create(table, wanted)]
    grown = [
        f"ALTER TABLE {_name(table, table.table)} ADD COLUMN {_quoted(name)} {type_};"
        for name, type_ in wanted.items()
        if there is not None and name not in there
    ]
    columns = ",\n".join(f"  {name} {type_}" for name, type_ in _PROGRESS_COLUMNS.items())
    progress = _name(table, PROGRESS)
    return [
        *made,
        *grown,
        f"CREATE TABLE IF NOT EXISTS {progress} (\n{columns},\n  PRIMARY KEY (pipeline, sink)\n);",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {_name(table, table.table)} TO {_quoted(user)};",
        f"GRANT SELECT, INSERT, UPDATE ON {progress} TO {_quoted(user)};",
    ]


def _create(table: SinkTable, wanted: dict[str, str]) -> str:
    columns = ",\n".join(
        f"  {_quoted(name)} {type_}{' NOT NULL' if name in table.keys else ''}" for name, type_ in wanted.items()
    )
    keys = ", ".join(map(_quoted, table.keys))
    return f"CREATE TABLE {_name(table, table.table)} (\n{columns},\n  PRIMARY KEY ({keys})\n);"


def _name(table: SinkTable, name: str) -> str:
    return ".".join(map(_quoted, filter(None, (table.schema, name))))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
