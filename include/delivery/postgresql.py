"""A table of PostgreSQL as a sink: rows and progress in one ordinary transaction.

The progress row is locked and compared first, so a delivery that somebody has overtaken changes nothing (compare and
set). A lock of the session says who delivers. Who comes next takes it from a session that no longer moves: a client
that was stopped holds nobody up.

Source: PostgreSQL's documentation, "COPY", "INSERT" (ON CONFLICT), "Advisory Locks", "Monitoring Database Activity".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from psycopg import sql

from include.delivery.contract import Delivery
from include.delivery.database import GONE, OF_PROGRESS, ROWS, DatabaseSink, Holder
from include.delivery.postgresql_prepared import PostgresqlPrepared
from include.delivery.postgresql_server import (
    LOST,
    ColumnThere,
    Connection,
    columns_there,
    connected,
    errors_of,
    has_key,
    placed,
)
from include.delivery.sink_table import PROGRESS, SinkTable
from include.delivery.sql_values import postgresql_value
from include.delivery.trouble import outcome_unknown, refuses
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.protocol.progress import Progress
from include.sources.logins import DatabaseLogin

_PART = 1 << 20  # bytes of a message
_HOLDER = """
SELECT a.pid, a.state <> 'active' OR a.wait_event_type = 'Client' IS TRUE, a.state_change, c.bytes_processed
FROM pg_locks l JOIN pg_stat_activity a USING (pid) LEFT JOIN pg_stat_progress_copy c USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND (l.classid::bigint << 32) | l.objid::bigint = %s
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass
class PostgresqlSink(DatabaseSink):
    """See `WriteAheadSink`."""

    connection: Connection = field(repr=False)

    @classmethod
    def opened(cls, table: SinkTable, login: DatabaseLogin, ca_file: str | None) -> PostgresqlSink:
        """The sink, not taken from whoever has it.

        Raises:
            RetryableError: it does not answer. TerminalError: it refuses the login.
        """
        connection = connected(table, login, ca_file)
        return cls(placed(connection, table), connection)

    def close(self) -> None:
        self.connection.close()

    def errors(self) -> AbstractContextManager[None]:
        return errors_of(self.table)

    def locked(self) -> bool:
        return bool(self._all(sql.SQL("SELECT pg_try_advisory_lock(%s)"), [self.table.lock])[0][0])

    def holder(self) -> Holder | None:
        found = self._all(sql.SQL(_HOLDER), [self.table.lock])
        if not found:
            return None
        session, waits, *does = found[0]
        return Holder(int(str(session)), tuple(does), bool(waits))

    def end_session(self, holder: Holder) -> None:
        self._all(sql.SQL("SELECT pg_terminate_backend(%s)"), [holder.session])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        is_committing = False
        try:
            with self.connection.transaction():
                yield
                fault_point("sink.written")
                is_committing = True
        except LOST as error:
            if is_committing:
                raise outcome_unknown(self.table.where, on_one_line(error)) from error
            raise
        fault_point("sink.committed")

    @property
    def prepared(self) -> PostgresqlPrepared:
        return PostgresqlPrepared(self.table, self.connection)

    def found(self, is_locked: bool = False) -> Progress | None:
        query = sql.SQL("SELECT {} FROM {} WHERE pipeline = %s AND sink = %s {}").format(
            _names(OF_PROGRESS), self._progress_table, sql.SQL("FOR UPDATE" if is_locked else "")
        )
        found = self._all(query, [self.table.pipeline, self.table.name])
        return Progress(*found[0]) if found else None  # type: ignore[arg-type]  # the table's columns are typed

    def other_writer(self) -> str | None:
        query = sql.SQL(
            "SELECT pipeline || '/' || sink FROM {} WHERE into_table IN (%s, %s) AND (pipeline, sink) <> (%s, %s)"
        )
        own = [self.table.in_words, self.table.table, self.table.pipeline, self.table.name]
        found = self._all(query.format(self._progress_table), own)
        return str(found[0][0]) if found else None

    def set_progress(self, now: Progress) -> None:
        query = sql.SQL(
            "INSERT INTO {table} AS p (pipeline, sink, into_table, {names}) VALUES (%s, %s, %s, {places}) "
            "ON CONFLICT (pipeline, sink) DO UPDATE SET into_table = excluded.into_table, {sets}, published_at = now()"
        ).format(
            table=self._progress_table,
            names=_names(OF_PROGRESS),
            places=sql.SQL(", ").join([sql.Placeholder()] * len(OF_PROGRESS)),
            sets=_sets(OF_PROGRESS),
        )
        values = [getattr(now, name) for name in OF_PROGRESS]
        self.connection.execute(query, [self.table.pipeline, self.table.name, self.table.in_words, *values])

    def publish(self, delivery: Delivery, is_prepared: bool = False) -> int:
        if (changes := delivery.changes) is None:
            return 0
        columns = self.table.columns
        values = [postgresql_value(column) for column in columns]
        if self.table.is_log or (delivery.is_snapshot and self.is_empty()):
            self._copy(self._name, self.table.names, changes.rows_as_csv(values), changes.written)
            return changes.written
        if (written := changes.written) or delivery.is_snapshot:
            with self._staged(ROWS, self.table.names, is_prepared) as rows:
                self._copy(rows, self.table.names, changes.rows_as_csv(values), written)
                self._look_at(rows)
                upserted = self.connection.execute(self._upsert(rows)).rowcount
                if self.table.values or self.table.flag:  # else rows that are there need no change
                    self._verify_count(upserted, written)
                if delivery.is_snapshot:
                    return written + self._remove(self._has_key("NOT EXISTS", rows))
        if removed := changes.removed:
            keys = [value for value, column in zip(values, columns, strict=True) if column.is_key]
            with self._staged(GONE, self.table.keys, is_prepared) as gone:
                self._copy(gone, self.table.keys, changes.keys_as_csv(keys), removed)
                self._look_at(gone)
                self._remove(self._has_key("EXISTS", gone))
        return written + removed

    def verify_keys(self) -> None:
        """Checks that the server finds a row by its key, and takes no key for another, as some types and collations of
        texts do.

        Raises:
            TerminalError: it does not.
        """
        for name, column in self._columns.items():
            if name in self.table.keys and (not column.is_exact or column.type.endswith("citext")):
                found = f"the key {name} of a type or collation that takes some texts for others"
                change = f'`ALTER TABLE {self.table.in_words} ALTER COLUMN "{name}" TYPE text COLLATE "C"`'
                raise refuses(self.table.where, found, f"change the column: {change}; or deliver into a table apart")
        if self._columns and self.table.keys and not has_key(self.connection, self.table):
            wanted = f"no unique index on exactly ({', '.join(self.table.keys)}) that is not partial or deferrable"
            create = f"`lakemark sinks create {self.table.pipeline} {self.table.name}`"
            action = f"give the table one: {create} prints the statement; with --run it runs it"
            raise refuses(self.table.where, wanted, action)

    def column_types(self) -> dict[str, str]:
        return {name: column.type for name, column in self._columns.items()}

    @cached_property
    def _columns(self) -> dict[str, ColumnThere]:
        return columns_there(self.connection, self.table)

    @contextmanager
    def _staged(self, name: str, names: Sequence[str], is_prepared: bool) -> Iterator[sql.Identifier]:
        """A table for rows that only this transaction sees. PREPARE forbids temporary ones: then it is an ordinary one,
        and goes before."""
        kind, stage = sql.SQL("TEMPORARY"), sql.Identifier(name)
        if is_prepared:
            own = f"{name}_{self.table.lock:x}"
            kind, stage = sql.SQL("UNLOGGED"), sql.Identifier(*filter(None, (self.table.schema, own)))
        query = sql.SQL("CREATE {} TABLE {} AS SELECT {} FROM {} WITH NO DATA")
        self.connection.execute(query.format(kind, stage, _names(names), self._name))
        yield stage
        self.connection.execute(sql.SQL("DROP TABLE {}").format(stage))

    def _copy(self, into: sql.Composable, names: Sequence[str], rows: Path, expected: int) -> None:
        query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, NULL 'NULL')").format(into, _names(names))
        with self.connection.cursor() as cursor:
            with cursor.copy(query) as copy, rows.open("rb") as content:
                while part := content.read(_PART):
                    copy.write(part)
            self._verify_count(cursor.rowcount, expected)

    def _verify_count(self, found: int, expected: int) -> None:
        """Checks that the table has taken all rows. Raises TerminalError: a trigger or a rule there leaves some out."""
        if found != expected:
            action = "drop the table's triggers and rules that leave rows out, or deliver into a table apart"
            raise refuses(self.table.where, f"{found:,} of {expected:,} rows were taken", action)

    def _look_at(self, stage: sql.Identifier) -> None:
        """Lets the server know what a table is like, so that it joins it well."""
        self.connection.execute(sql.SQL("ANALYZE {}").format(stage))

    def _upsert(self, stage: sql.Identifier) -> sql.Composed:
        written = [*self.table.values, *([self.table.flag] if self.table.flag else [])]
        into = [*self.table.names, *([self.table.flag] if self.table.flag else [])]
        taken = [*map(sql.Identifier, self.table.names), *([sql.SQL("false")] if self.table.flag else [])]
        return sql.SQL(
            "INSERT INTO {table} ({into}) SELECT {taken} FROM {stage} ON CONFLICT ({keys}) DO {then}"
        ).format(
            table=self._name,
            into=_names(into),
            taken=sql.SQL(", ").join(taken),
            stage=stage,
            keys=_names(self.table.keys),
            then=sql.SQL("UPDATE SET {}").format(_sets(written)) if written else sql.SQL("NOTHING"),
        )

    def _has_key(self, how: Literal["EXISTS", "NOT EXISTS"], stage: sql.Identifier) -> sql.Composed:
        """Condition for the table's rows whose key is among the staged ones, or is not."""
        query = sql.SQL("{} (SELECT FROM {} g WHERE {})")
        return query.format(sql.SQL(how), stage, self._same_key("g"))

    def _remove(self, condition: sql.Composed) -> int:
        if self.table.flag is None:
            query = sql.SQL("DELETE FROM {} t WHERE {}").format(self._name, condition)
        else:
            query = sql.SQL("UPDATE {} t SET {} = true WHERE {}").format(
                self._name, sql.Identifier(self.table.flag), condition
            )
        return self.connection.execute(query).rowcount

    def _same_key(self, other: str) -> sql.Composed:
        return sql.SQL(" AND ").join(
            sql.SQL("t.{} = {}.{}").format(sql.Identifier(key), sql.Identifier(other), sql.Identifier(key))
            for key in self.table.keys
        )

    def is_empty(self) -> bool:
        return not self._all(sql.SQL("SELECT FROM {} LIMIT 1").format(self._name), [])

    def _all(self, query: sql.SQL | sql.Composed, values: Sequence[object]) -> list[tuple[object, ...]]:
        return self.connection.execute(query, values).fetchall()

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(*filter(None, (self.table.schema, self.table.table)))

    @property
    def _progress_table(self) -> sql.Identifier:
        return sql.Identifier(*filter(None, (self.table.schema, PROGRESS)))


def _names(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _sets(names: Iterable[str]) -> sql.Composed:
    """Takes columns from the row that is there already."""
    each = (sql.SQL("{} = excluded.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in names)
    return sql.SQL(", ").join(each)
