"""One table that `--deep` recomputes: its rows, the changes that it got, and what can be said about a row, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from include.audit.changes import is_for, row_order, within
from include.lake.delta_tables import OpenedTable, all_rows
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import LINEAGE, RESCUED, Pipeline
from include.protocol.ranges import OffsetRange, TopicPartition
from include.sources.duckdb_records import duckdb_type

KEYED = f"{LINEAGE}_keys"  # in `shown`: struct of the keys
ORDER = f"{LINEAGE}_order"  # in `shown`: the order of the row's change, as `changes._order`
_PLACE = '{0}.topic, {0}.partition, {0}."offset"'


@dataclass(frozen=True)
class Reach:
    """Which of a table's rows can be proven."""

    held: Sequence[OffsetRange]  # what was applied to the table and Kafka still holds
    gone: str = "false"  # condition on a row `t`: its record is of a topic that is gone
    replayed: str = "false"  # condition on a row `t`: its record may be of such a topic
    made_anew: frozenset[str] = frozenset()  # topics whose offsets were other records' at some time
    purged: Mapping[TopicPartition, int] = field(default_factory=dict)  # below it (exclusive) tombstones may be gone
    late: Mapping[str, str] = field(default_factory=dict)  # conditions on a row `t`: it may be older than the column


@dataclass(frozen=True)
class Audited:
    """A table, and the pipeline whose changes it gets.

    Args:
        name: as the pipeline file has it. is_point: it is the target. route: the place of the route whose changes it
            gets; None: it gets all changes.
    """

    pipeline: Pipeline
    name: str
    is_point: bool
    is_history: bool
    route: int | None
    reach: Reach

    def take(self, database: duckdb.DuckDBPyConnection, rows: OpenedTable | str) -> None:
        """Makes the tables `shown` (the table's rows, with KEYED and ORDER), `places` (of all records that were applied
        to it) and `mine` (the changes that it got, from `changes`).

        Args:
            rows: the table, or a name for its rows in the database.
        """
        if not isinstance(rows, str):
            database.register("_rows", all_rows(rows))
        rows = rows if isinstance(rows, str) else "_rows"
        there = {name.lower() for name in database.table(rows).columns}
        lacks = (column for column in self.pipeline.columns if column.name.lower() not in there)
        more = "".join(f", CAST(NULL AS {duckdb_type(c.type)}) AS {sql_name(c.name)}" for c in lacks)
        database.execute(
            f"CREATE OR REPLACE TABLE shown AS SELECT *{more}, {self._keys('t')} AS {KEYED}, "
            f"{row_order(self.pipeline, _lineage(database, rows))} AS {ORDER} FROM {rows} t"
        )
        database.execute(
            'CREATE OR REPLACE TABLE places AS SELECT topic, partition, "offset" FROM records WHERE '
            + within(self.reach.held, "topic", "partition", '"offset"')
        )
        wanted = "true" if self.route is None else is_for(self.route)
        held = within(self.reach.held, "_order.topic", "_order.partition", '_order."offset"')
        database.execute(
            f"CREATE OR REPLACE TABLE mine AS SELECT *, {self._packed('changes')} AS _keys FROM changes "
            f"WHERE {wanted} AND {held}"
        )
        if self.pipeline.transform is not None:
            self._choose(database)

    def _choose(self, database: duckdb.DuckDBPyConnection) -> None:
        """Keeps one of several rows that a transform made for one key from one record. The table may have any of them,
        but always the same one; so the one that it has is right."""
        same = " AND ".join([f"t.{LINEAGE}.deleted = m._deleted", *(self.same(place, "m") for place in self.values)])
        database.execute(
            f"CREATE OR REPLACE TABLE mine AS SELECT m.* FROM mine m LEFT JOIN shown t ON t.{KEYED} = m._keys "
            f"AND t.{ORDER} = m._order QUALIFY row_number() OVER (PARTITION BY m._keys, m._order "
            f"ORDER BY coalesce({same}, false) DESC) = 1"
        )

    @property
    def is_foreign(self) -> str:
        """SQL condition: a row `t` is from another writer."""
        return f't.{LINEAGE}."offset" IS NULL'

    @property
    def values(self) -> list[int]:
        """The places of the columns that are no keys and that the table may show."""
        names = [column.name for column in self.pipeline.columns]
        return [place for place, name in enumerate(names) if name not in self.pipeline.change.keys]

    def shown(self, place: int) -> str:
        """SQL for a column of a row `t`."""
        return f"t.{sql_name(self.pipeline.columns[place].name)}"

    def same(self, place: int, of: str, name: str | None = None) -> str:
        """SQL condition: a row `t` and a computed row have the same value in a column.

        Args:
            of: the computed row. name: of its column; default: as in `changes`.
        """
        column = self.pipeline.columns[place].name
        shown, computed = self.shown(place), f"{of}.{name or f'c{place}'}"
        if column == RESCUED and self.pipeline.rescues:
            shown, computed = f"same_json({shown})", f"same_json({computed})"
        same = f"{shown} IS NOT DISTINCT FROM {computed}"
        late = self.reach.late.get(column.lower())
        if column in self.pipeline.placing_values:  # the tombstones of older tables are without it
            late = f"({f'{late} OR ' if late else ''}t.{LINEAGE}.deleted)"
        return f"({same} OR ({shown} IS NULL AND {late}))" if late else f"({same})"

    def is_held(self, order: str) -> str:
        """SQL condition: the record of a change was applied to the table, and Kafka still holds it."""
        return f'coalesce(({_PLACE.format(order)}) IN (SELECT (topic, partition, "offset") FROM places), false)'

    def is_made_anew(self, order: str) -> str:
        """SQL condition: the record of a change is of a topic whose offsets were other records' at some time."""
        topics = ", ".join(map(sql_text, sorted(self.reach.made_anew)))
        return f"coalesce({order}.topic IN ({topics}), false)" if topics else "false"

    def is_purged(self, order: str) -> str:
        """SQL condition: the tombstone of a change may have been removed."""
        parts = (
            f'({order}.topic = {sql_text(tp.topic)} AND {order}.partition = {tp.partition} AND {order}."offset" < {at})'
            for tp, at in sorted(self.reach.purged.items())
        )
        return f"({' OR '.join(parts) or 'false'})"

    def _keys(self, row: str) -> str:
        keys = ((place, f"{row}.{sql_name(key)}") for place, key in enumerate(self.pipeline.change.keys))
        return f"struct_pack({', '.join(f'k{place} := {value}' for place, value in keys)})"

    def _packed(self, row: str) -> str:
        names = [column.name for column in self.pipeline.columns]
        keys = ((place, names.index(key)) for place, key in enumerate(self.pipeline.change.keys))
        return f"struct_pack({', '.join(f'k{place} := {row}.c{column}' for place, column in keys)})"

    def lineage(self, database: duckdb.DuckDBPyConnection) -> Mapping[str, Any]:  # DuckDB's types
        """The types of the fields of `_lakemark` in `shown`, by name."""
        return _lineage(database, "shown")

    def fields(self, database: duckdb.DuckDBPyConnection, name: str) -> frozenset[str]:
        """The fields of a struct within `_lakemark`, in small letters; none if there is no such struct."""
        inner = self.lineage(database).get(name)
        return frozenset(field.lower() for field, _ in inner.children) if inner is not None else frozenset()


def _lineage(database: duckdb.DuckDBPyConnection, rows: str) -> Mapping[str, Any]:  # DuckDB's types
    relation = database.table(rows)
    return dict(dict(zip(relation.columns, relation.types, strict=True))[LINEAGE].children)
