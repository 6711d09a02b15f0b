"""A table of MySQL or MariaDB as a sink: rows and progress in one ordinary transaction.

As for PostgreSQL, the progress row is locked and compared first, and a lock of the session says who delivers. Rows come
by LOAD DATA into temporary tables of the session. There, a server only warns of a value that does not fit: so a warning
ends the delivery.

Source: MySQL's and MariaDB's manuals, "LOAD DATA", "INSERT ... ON DUPLICATE KEY UPDATE", "GET_LOCK".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from include.delivery.contract import Delivery
from include.delivery.database import GONE, OF_PROGRESS, ROWS, DatabaseSink, Holder
from include.delivery.mysql_prepared import MysqlPrepared
from include.delivery.mysql_server import (
    LOST,
    Connection,
    columns_there,
    connected,
    dialect,
    errors_of,
    placed,
    unique_indexes,
)
from include.delivery.sink_table import PROGRESS, SinkTable
from include.delivery.sql_values import is_binary, mysql_value
from include.delivery.trouble import outcome_unknown, refuses
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.pipeline_file.sink_columns import SinkColumn
from include.protocol.progress import Progress
from include.sources.logins import DatabaseLogin

_FORM = "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
_HOLDER = """
SELECT id, command, state, info FROM information_schema.processlist WHERE id = IS_USED_LOCK(%s)
"""
_ENGINES = """
SELECT t.engine, e.transactions
FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine
WHERE t.table_name = %s AND t.table_schema = coalesce(%s, database())
"""
_COLLATIONS = """
SELECT column_name, collation_name FROM information_schema.columns
WHERE table_name = %s AND table_schema = coalesce(%s, database()) AND collation_name IS NOT NULL
"""


@dataclass
class MysqlSink(DatabaseSink):
    """See `WriteAheadSink`."""

    connection: Connection = field(repr=False)
    database: str  # locks and prepared transactions are the whole server's

    @classmethod
    def opened(cls, table: SinkTable, login: DatabaseLogin, ca_file: str | None) -> MysqlSink:
        """The sink, not taken from whoever has it.

        Raises:
            RetryableError: it does not answer. TerminalError: it refuses the login.
        """
        connection = connected(table, login, ca_file)
        return cls(placed(connection, table), connection, login.database)

    def close(self) -> None:
        if self.connection.open:
            self.connection.close()

    def errors(self) -> AbstractContextManager[None]:
        return errors_of(self.table)

    def locked(self) -> bool:
        return self.connection.all("SELECT GET_LOCK(%s, 0)", (self._lock,)) == [(1,)]

    def holder(self) -> Holder | None:
        found = self.connection.all(_HOLDER, (self._lock,))
        if not found:
            return None
        session, command, state, info = found[0]
        return Holder(int(session), (command, state, info), command == "Sleep" or str(state).startswith("Reading"))

    def end_session(self, holder: Holder) -> None:
        try:
            self.connection.run(f"KILL {holder.session:d}")
        except pymysql.err.Error:  # it has ended by itself
            return

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.begin()
        try:
            yield
            fault_point("sink.written")
        except BaseException:
            self._roll_back()
            raise
        try:
            self.connection.commit()
        except LOST as error:
            raise outcome_unknown(self.table.where, on_one_line(error)) from error
        fault_point("sink.committed")

    @property
    def prepared(self) -> MysqlPrepared:
        return MysqlPrepared(self.table, self.connection, self._lock)

    def found(self, is_locked: bool = False) -> Progress | None:
        lock = " FOR UPDATE" if is_locked else ""
        query = f"SELECT {_names(OF_PROGRESS)} FROM {self._progress_table} WHERE pipeline = %s AND sink = %s{lock}"
        found = self.connection.all(query, self._own)
        return Progress(*found[0]) if found else None

    def other_writer(self) -> str | None:
        query = f"SELECT pipeline, sink FROM {self._progress_table} WHERE into_table IN (%s, %s)"
        places = (self.table.in_words, self.table.table)
        found = self.connection.all(f"{query} AND (pipeline <> %s OR sink <> %s)", (*places, *self._own))
        return "/".join(map(str, found[0])) if found else None

    def set_progress(self, now: Progress) -> None:
        names = ("pipeline", "sink", "into_table", *OF_PROGRESS)
        values = (self.table.pipeline, self.table.name, self.table.in_words, *(getattr(now, n) for n in OF_PROGRESS))
        own = ("pipeline", "sink")
        if self.connection.all(f"SELECT 1 FROM {self._progress_table} WHERE pipeline = %s AND sink = %s", values[:2]):
            sets = ", ".join(f"{_quoted(name)} = %s" for name in names[2:])
            query = f"UPDATE {self._progress_table} SET {sets}, published_at = utc_timestamp(6) WHERE pipeline = %s"
            self.connection.run(f"{query} AND sink = %s", (*values[2:], *values[: len(own)]))
            return
        places = ", ".join(["%s"] * len(names))
        self.connection.run(f"INSERT INTO {self._progress_table} ({_names(names)}) VALUES ({places})", values)

    def stage(self, delivery: Delivery) -> None:
        """Staged before the transaction: what a temporary table holds is the session's alone."""
        for table in (ROWS, GONE):
            self.connection.run(f"DROP TEMPORARY TABLE IF EXISTS {_quoted(table)}")
        if (changes := delivery.changes) is None:
            return
        columns = self.table.columns
        values = [mysql_value(column) for column in columns]
        if (written := changes.written) or delivery.is_snapshot:
            self._load(ROWS, columns, changes.rows_as_csv(values), written)
        if (removed := changes.removed) and not delivery.is_snapshot:
            keys = [(column, value) for column, value in zip(columns, values, strict=True) if column.is_key]
            rows = changes.keys_as_csv([value for _, value in keys])
            self._load(GONE, [column for column, _ in keys], rows, removed)

    def publish(self, delivery: Delivery, is_prepared: bool = False) -> int:
        if (changes := delivery.changes) is None:
            return 0
        if (written := changes.written) or delivery.is_snapshot:
            self.connection.run(self._upsert())
        if delivery.is_snapshot:
            missing = " AND ".join(f"s.{_quoted(key)} IS NULL" for key in self.table.keys)
            return written + self._remove(f"LEFT JOIN {_quoted(ROWS)} s ON {self._same_key('s')}", missing)
        if removed := changes.removed:
            self._remove(f"JOIN {_quoted(GONE)} s ON {self._same_key('s')}", "true")
        return written + removed

    def _load(self, stage: str, columns: Sequence[SinkColumn], rows: Path, expected: int) -> None:
        names = [column.name for column in columns]
        keys = f" (PRIMARY KEY ({_names(self.table.keys)}))" if self.table.keys else ""
        made = f"CREATE TEMPORARY TABLE {_quoted(stage)}{keys}"
        self.connection.run(f"{made} SELECT {_names(names)} FROM {self._name} LIMIT 0")
        read = ", ".join(f"@c{n}" if is_binary(column) else _quoted(column.name) for n, column in enumerate(columns))
        sets = [f"{_quoted(c.name)} = UNHEX(@c{n})" for n, c in enumerate(columns) if is_binary(c)]
        self.connection.loaded = rows
        with self.connection.cursor() as cursor:
            loaded = cursor.execute(
                f"LOAD DATA LOCAL INFILE %s INTO TABLE {_quoted(stage)} {_FORM} ({read})"
                + (f" SET {', '.join(sets)}" if sets else ""),
                (str(rows),),
            )
            if cursor.warning_count:
                told = "; ".join(str(text) for _, _, text in self.connection.all("SHOW WARNINGS LIMIT 5"))
                found = f"{cursor.warning_count:,} values that do not fit their columns"
                raise refuses(self.table.where, found, self.table.unfit_advice, evidence=told)
        if loaded != expected:
            raise AssertionError(f"{self.table.where}: {loaded} of {expected} rows were loaded")

    def _upsert(self) -> str:
        """With its rows from the stage; those of a log are only added."""
        flag = self.table.flag
        into = _names([*self.table.names, *([flag] if flag else [])])
        taken = _names(self.table.names) + (", false" if flag else "")
        sets = self.table.values + ([flag] if flag else []) or self.table.keys
        then = ", ".join(f"{_quoted(name)} = VALUES({_quoted(name)})" for name in sets)
        insert = f"INSERT INTO {self._name} ({into}) SELECT {taken} FROM {_quoted(ROWS)}"
        return insert if self.table.is_log else f"{insert} ON DUPLICATE KEY UPDATE {then}"

    def _remove(self, join: str, condition: str) -> int:
        if self.table.flag is None:
            return self.connection.run(f"DELETE t FROM {self._name} t {join} WHERE {condition}")
        return self.connection.run(
            f"UPDATE {self._name} t {join} SET t.{_quoted(self.table.flag)} = true WHERE {condition}"
        )

    def _same_key(self, other: str) -> str:
        return " AND ".join(f"t.{_quoted(key)} = {other}.{_quoted(key)}" for key in self.table.keys)

    def verify_keys(self) -> None:
        """Checks that the server finds a row by the whole of its key and by nothing else: an upsert looks at every
        unique index, and most collations take some texts for others.

        Raises:
            TerminalError: it does not.
        """
        place = (self.table.table, self.table.schema)
        engines = self.connection.all(_ENGINES, place)
        for engine, has_transactions in engines:
            if has_transactions != "YES" and self.table.guarantee == "exactly_once":
                action = "`ALTER TABLE ... ENGINE=InnoDB`; or let the section say `mode: upsert`"
                raise refuses(self.table.where, f"the engine {engine}, which has no transactions", action)
        if self.table.is_log:  # it looks for no row
            return
        unique = unique_indexes(self.connection, self.table)
        keys = {key.lower() for key in self.table.keys}
        others = {index: names for index, names in unique.items() if {name.lower() for name in names} != keys}
        wanted = f"a primary key ({', '.join(self.table.keys)}), and no other unique index"
        if others:
            found = "; ".join(f"{index} ({', '.join(columns)})" for index, columns in others.items())
            action = "an upsert would change the rows that other indexes find: drop them, or deliver into a table apart"
            raise refuses(self.table.where, f"{found}, not {wanted}", action)
        create = f"`lakemark sinks create {self.table.pipeline} {self.table.name}` prints"
        if engines and not unique:
            raise refuses(self.table.where, f"no unique index, not {wanted}", f"give it one: {create} the statement")
        collations = {str(column): str(collation) for column, collation in self.connection.all(_COLLATIONS, place)}
        for key in self.table.keys:
            collation = collations.get(key, "")
            if collation and not collation.endswith(("nopad_bin", "_0900_bin")) and collation != "binary":
                found = f"the collation {collation} of the key {key}, which takes some texts for others"
                type_ = f"{self.column_types()[key]}{dialect(self.connection).of_text_key} NOT NULL"
                change = f"`ALTER TABLE {self.table.in_words} MODIFY {key} {type_}`"
                raise refuses(self.table.where, found, f"change the column: {change}; or deliver into a table apart")

    def column_types(self) -> dict[str, str]:
        there = {name.lower(): type_ for name, type_ in columns_there(self.connection, self.table).items()}
        return there | {name: there[name.lower()] for name in self.table.names if name.lower() in there}

    def is_empty(self) -> bool:
        return not self.connection.all(f"SELECT 1 FROM {self._name} LIMIT 1")

    def _roll_back(self) -> None:
        try:
            self.connection.rollback()
        except pymysql.err.Error:  # the connection is gone, and the transaction with it
            return

    @property
    def _own(self) -> tuple[str, str]:
        return self.table.pipeline, self.table.name

    @property
    def _lock(self) -> str:
        return f"lakemark/{hashlib.sha256(f'{self.database}/{self.table.lock}'.encode()).hexdigest()[:16]}"

    @property
    def _name(self) -> str:
        return ".".join(_quoted(part) for part in (self.table.schema, self.table.table) if part)

    @property
    def _progress_table(self) -> str:
        return ".".join(_quoted(part) for part in (self.table.schema, PROGRESS) if part)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    """A name in a query, as `Connection.all` takes it."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"
