"""Compares the tables of two pipelines by their rows. What says which batch brought a row does not count."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from include.checkpoints.reading import Cut, query_at, shown_as
from include.lake.delta_tables import arrow_schema
from include.lake.sql import sql_name
from include.participants.participant import Participant
from include.pipeline_file import LINEAGE
from include.protocol.json_data import JsonObject

_OF_BATCHES = (LINEAGE, "generation", "batch_id")
_SIDE = "_lakemark_side"


@dataclass(frozen=True)
class Compared:
    """Two tables that play the same part."""

    table: str  # the participant's name in the first pipeline
    rows: tuple[int, int]  # of each
    only: tuple[int, int]  # rows that only one of them has
    columns: tuple[list[str], list[str]]  # columns that only one of them has
    left_out: list[str]  # columns that cannot be compared

    @property
    def is_equal(self) -> bool:
        """Whether both have the same rows, in the columns that both have."""
        return self.only == (0, 0)

    def __str__(self) -> str:
        differing = f"{self.only[0]:,} only in the one, {self.only[1]:,} only in the other"
        found = f"{self.rows[0]:,} and {self.rows[1]:,} rows, {'the same' if self.is_equal else differing}"
        for names, which in zip(self.columns, ("the one", "the other"), strict=True):
            found += f"; only {which} has {', '.join(names)}" if names else ""
        return f"{self.table}: {found}" + (f"; not compared: {', '.join(self.left_out)}" if self.left_out else "")

    def to_json(self) -> JsonObject:
        return {
            "table": self.table,
            "rows": [*self.rows],
            "only": [*self.only],
            "columns": [*self.columns],
            "left_out": self.left_out,
        }


def compared(one: Cut, other: Cut, mine: Participant, theirs: Participant) -> Compared | None:
    """Compares two tables; None if neither was there.

    Raises:
        TerminalError: see `Cut.tables`.
    """
    tables = one.tables().get(shown_as(mine)), other.tables().get(shown_as(theirs))
    if tables == (None, None):
        return None
    schemas = [None if table is None else arrow_schema(table) for table in tables]
    names = [[n for n in (() if schema is None else schema.names) if n not in _OF_BATCHES] for schema in schemas]
    both = [name for name in names[0] if name in names[1]]
    left_out = [n for n in both if any(schema is not None and _has_map(schema.field(n).type) for schema in schemas)]
    columns = ", ".join(sql_name(name) for name in both if name not in left_out)
    sides = [
        f"{sql_name(cut.pipeline.name)}.{sql_name(shown_as(part))}" for cut, part in ((one, mine), (other, theirs))
    ]
    rows = [0 if table is None else _count([one, other], side) for table, side in zip(tables, sides, strict=True)]
    if None in tables:
        only = rows
    else:
        # Not by EXCEPT ALL: DataFusion's says nothing of how often a row is there.
        picked = " UNION ALL ".join(
            f"SELECT {columns}, {n} AS {_SIDE} FROM {side}" for n, side in zip((1, -1), sides, strict=True)
        )
        of_each = f"SELECT sum({_SIDE}) AS n FROM ({picked}) GROUP BY {columns}"
        surplus = (f"SELECT sum({sign}n) AS n FROM ({of_each}) WHERE {sign}n > 0" for sign in ("", "-"))
        only = [_number([one, other], query) for query in surplus]
    beyond = [n for n in names[0] if n not in names[1]], [n for n in names[1] if n not in names[0]]
    if None in tables:
        beyond = [], []
    return Compared(mine.name, (rows[0], rows[1]), only=(only[0], only[1]), columns=beyond, left_out=left_out)


def _count(cuts: list[Cut], table: str) -> int:
    return _number(cuts, f"SELECT count(*) AS n FROM {table} AS t")


def _number(cuts: list[Cut], query: str) -> int:
    [row] = query_at(cuts, query).to_pylist()
    return int(row["n"] or 0)


def _has_map(type_: pa.DataType) -> bool:
    """Whether DataFusion cannot compare its values."""
    if pa.types.is_map(type_):
        return True
    return any(_has_map(type_.field(n).type) for n in range(type_.num_fields))
