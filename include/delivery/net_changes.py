"""The net changes of a table's rows by key: which rows to write, and which keys to remove.

A database in memory compares the rows that are gone with those that have come. What does not fit into memory, it keeps
in a folder of its own meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from include.delivery.pace import Pace
from include.lake.damage import on_one_line
from include.lake.row_changes import RowChanges
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import LINEAGE, VALID_FROM
from include.pipeline_file.schema_ddl import canonical
from include.pipeline_file.sink_columns import SinkColumn
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.scratch import scratch_folder

_MEMORY = "1GB"
_ROWS_AT_ONCE = 100_000
_OF_LINEAGE, _OF_HISTORY = "deleted", VALID_FROM  # what says whether readers should see a row


@dataclass(frozen=True)
class NetChanges:
    """What a sink has to change, by key. Rows have the sink's columns."""

    columns: tuple[SinkColumn, ...]
    _database: duckdb.DuckDBPyConnection
    _folder: Path
    _pace: Pace
    _is_sorted: bool = False  # the rows are in their order already; else that of their keys is

    @cached_property
    def written(self) -> int:
        """How many rows there are to write."""
        return self._count("written")

    @cached_property
    def removed(self) -> int:
        """How many keys there are to remove."""
        return self._count("removed")

    def rows(self, expressions: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows to write, whole, in the order of their keys.

        Args:
            expressions: SQL for each value, over the columns by their names at the sink; None: as they are.
        """
        return self._read("written", expressions or [sql_name(column.name) for column in self.columns])

    def keys(self, expressions: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The keys to remove, in order. Args: expressions: as for `rows`, over the key's columns."""
        return self._read("removed", expressions or self._keys)

    def rows_as_csv(self, expressions: Sequence[str]) -> Path:
        """The rows to write as a file of CSV: `NULL` stands for null, every value is in quotes, a quote is doubled. The
        file is there for as long as the changes. Args: expressions: as for `rows`."""
        return self._file("written", expressions)

    def keys_as_csv(self, expressions: Sequence[str]) -> Path:
        """The keys to remove, in the same form."""
        return self._file("removed", expressions)

    def _file(self, table: str, expressions: Sequence[str]) -> Path:
        file = self._folder / f"{table}.csv"
        form = "FORMAT csv, HEADER false, NULLSTR 'NULL', FORCE_QUOTE *"
        self._database.execute(f"COPY ({self._query(table, expressions)}) TO {sql_text(str(file))} ({form})")
        return file

    def has(self, condition: str, of_keys: bool) -> bool:
        """Whether there is such a row. Args: condition: SQL over the columns by their names at the sink. of_keys: it is
        over the key's, so that keys to remove may be such, too."""
        tables = ("written", "removed") if of_keys else ("written",)
        queries = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {condition}" for table in tables)
        return bool(self._database.execute(f"SELECT 1 FROM ({queries}) LIMIT 1").fetchall())

    @property
    def _keys(self) -> list[str]:
        return [sql_name(column.name) for column in self.columns if column.is_key]

    def _count(self, table: str) -> int:
        [(count,)] = self._database.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(count)

    def _read(self, table: str, expressions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        query = self._query(table, expressions)
        reader: pa.RecordBatchReader = self._database.sql(query).to_arrow_reader(_ROWS_AT_ONCE)
        yield from self._pace.through(reader, "has sent")

    def _query(self, table: str, expressions: Sequence[str]) -> str:
        query = f"SELECT {', '.join(expressions)} FROM {table}"
        return query if self._is_sorted else f"{query} ORDER BY {', '.join(self._keys)}"


@contextmanager
def net_changes(
    changes: RowChanges, columns: Sequence[SinkColumn], table: pa.Schema, seen: str, pace: Pace
) -> Iterator[NetChanges]:
    """The net changes, for as long as the context lasts.

    A row that was deleted stays in its table, hidden from readers: here it is gone. A row that was only copied into
    another file has not changed.

    Args:
        table: the columns of the table, as Arrow has them. seen: SQL condition for the rows that readers should see.

    Raises:
        TerminalError, TableDamaged: see `RowChanges.gone`. RetryableError: they do not fit into this machine's memory
            and its folder for temporary files.
    """
    columns = tuple(columns)
    failed: list[LakemarkError] = []
    with _in_words(failed), scratch_folder() as folder, duckdb.connect() as database:
        database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{_MEMORY}'; SET threads = 2")
        database.execute(f"SET temp_directory = {sql_text(str(folder))}")
        is_copied = changes.may_hold_copies
        of_gone = columns if is_copied else [column for column in columns if column.is_key]
        for name, wanted, rows in (("come", columns, changes.come), ("gone", of_gone, changes.gone)):
            schema = _read_of(table, wanted)
            read = pace.through(_noted(rows(schema), failed), "has read")
            database.register("stream", pa.RecordBatchReader.from_batches(schema, read))
            values = ", ".join(_value(column, table) for column in wanted)
            database.execute(f"CREATE TABLE {name} AS SELECT {values} FROM stream WHERE {seen}")
            database.unregister("stream")
        keys = ", ".join(sql_name(column.name) for column in columns if column.is_key)
        without_copies = "EXCEPT ALL SELECT * FROM gone" if is_copied else ""
        database.execute(f"CREATE VIEW written AS SELECT * FROM come {without_copies}")
        database.execute(f"CREATE VIEW removed AS SELECT {keys} FROM gone EXCEPT SELECT {keys} FROM come")
        found = NetChanges(columns, database, folder, pace)
        pace.sends(found.written, found.removed)
        yield found


@contextmanager
def logged_changes(
    changes: RowChanges,
    columns: Sequence[SinkColumn],
    table: pa.Schema,
    batch: BatchKey,
    order: Sequence[str],
    pace: Pace,
) -> Iterator[NetChanges]:
    """The changes of one batch as they were accepted, all of them to write, for as long as the context lasts.

    Args:
        changes: of the table of accepted changes, the batch's among them. table: its columns, as Arrow has them.
        order: SQL over them.

    Raises:
        As `net_changes`.
    """
    columns = tuple(columns)
    failed: list[LakemarkError] = []
    with _in_words(failed), scratch_folder() as folder, duckdb.connect() as database:
        database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{_MEMORY}'; SET threads = 2")
        database.execute(f"SET temp_directory = {sql_text(str(folder))}")
        read = pace.through(_noted(changes.come(table), failed), "has read")
        database.register("stream", pa.RecordBatchReader.from_batches(table, read))
        values = ", ".join(_value(column, table) for column in columns)
        own = f"{LINEAGE}.generation = {batch.generation} AND {LINEAGE}.batch_id = {batch.batch_id}"
        # Sorted by itself, which DuckDB keeps: a column of the sink may have the name of another one of the table.
        in_order = f"SELECT * FROM stream WHERE {own} ORDER BY {', '.join(order)}"
        database.execute(f"CREATE TABLE written AS SELECT {values} FROM ({in_order})")
        database.unregister("stream")
        database.execute("CREATE TABLE removed AS SELECT * FROM written LIMIT 0")
        found = NetChanges(columns, database, folder, pace, _is_sorted=True)
        pace.sends(found.written, found.removed)
        yield found


@contextmanager
def given_changes(written: pa.Table, removed: pa.Table, columns: Sequence[SinkColumn]) -> Iterator[NetChanges]:
    """Changes that somebody has made up. Args: written, removed: with the columns' names; of the key alone."""
    with _in_words([]), scratch_folder() as folder, duckdb.connect() as database:
        for name, rows in {"written": written, "removed": removed}.items():
            database.register("given", rows)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            database.unregister("given")
        yield NetChanges(tuple(columns), database, folder, Pace())


def _noted(batches: Iterator[pa.RecordBatch], failed: list[LakemarkError]) -> Iterator[pa.RecordBatch]:
    """The same batches. Keeps the error that ends them: the database tells it as one of its own."""
    try:
        yield from batches
    except LakemarkError as error:
        failed.append(error)
        raise


@contextmanager
def _in_words(failed: list[LakemarkError]) -> Iterator[None]:
    """What the database says, as Lakemark's errors. Args: failed: what it was told while it read."""
    try:
        yield
    except duckdb.Error as error:
        if failed:
            raise failed[0] from error
        raise _told(error) from error


def _told(error: duckdb.Error) -> LakemarkError:
    if isinstance(error, (duckdb.OutOfMemoryException, duckdb.IOException)):
        return RetryableError(
            what="the rows of a delivery do not fit into this machine",
            where=tempfile.gettempdir(),
            expected=f"{_MEMORY} of memory, and space for the rest of the rows in that folder",
            found=on_one_line(error),
            action="make space there, or name another folder in TMPDIR; then run the same again",
        )
    return TerminalError(
        what="the rows of a delivery cannot be brought into the form of the sink",
        where="include/delivery/net_changes.py",
        expected="values that can be written as texts",
        found=type(error).__name__,
        action="leave the delivery out (docs/sinks.md, `skip`), and report this with the evidence",
        evidence=on_one_line(error),
    )


def _value(column: SinkColumn, table: pa.Schema) -> str:
    """SQL for a column's values. One that the table does not have yet is null."""
    is_there = column.path[0] in table.names
    value = ".".join(map(sql_name, column.path)) if is_there else f"NULL::{_duckdb_type(column.type)}"
    return f"{value} AS {sql_name(column.name)}"


def _duckdb_type(type_: str) -> str:
    from sqlglot import exp  # a fifth of a second, and seldom needed

    return exp.DataType.build(canonical(type_), dialect="spark").sql(dialect="duckdb")


def _read_of(table: pa.Schema, columns: Sequence[SinkColumn]) -> pa.Schema:
    """What is read of a table for these columns, and to know which rows readers should see."""
    names = {column.path[0] for column in columns} - {LINEAGE} | {_OF_HISTORY}
    parts = {column.path[1] for column in columns if column.path[0] == LINEAGE} | {_OF_LINEAGE}
    found = [field for field in table if field.name in names]
    lineage = [part for part in table.field(LINEAGE).type if part.name in parts]
    return pa.schema([*found, pa.field(LINEAGE, pa.struct(lineage))])
