"""Prepared transactions of PostgreSQL: they outlive the session and the server, and no time-out ends them.

Any session of the user who prepared one may end it, in the same database. The view of them lists the whole server's: a
name begins with what only this sink's have.

Source: PostgreSQL's documentation, "PREPARE TRANSACTION", "pg_prepared_xacts".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from include.delivery.contract import Pending
from include.delivery.postgresql_server import Connection
from include.delivery.prepared import PreparedTransactions
from include.delivery.sink_table import SinkTable
from include.delivery.trouble import another_users, cannot_prepare, no_room
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.protocol.two_phase import Prepared

_PENDING = """
SELECT gid, to_char(prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"') FROM pg_prepared_xacts
WHERE starts_with(gid, %s) AND database = current_database()
"""
_ROOM = "SELECT current_setting('max_prepared_transactions')::int, (SELECT count(*)::int FROM pg_prepared_xacts)"
_NEEDED = "max_prepared_transactions of at least 1 for each sink of two phases, and as much as others use"


@dataclass(frozen=True)
class PostgresqlPrepared(PreparedTransactions):
    """See `PreparedTransactions`."""

    table: SinkTable
    connection: Connection

    @contextmanager
    def preparing(self, prepared: Prepared) -> Iterator[None]:
        self.connection.execute("BEGIN")
        try:
            yield
            fault_point("sink.written")
            self.connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(self._gid(prepared)))
        except BaseException:
            self._roll_back()
            raise

    def end(self, prepared: Prepared, commits: bool) -> bool:
        query = sql.SQL("COMMIT PREPARED {}" if commits else "ROLLBACK PREPARED {}")
        try:
            self.connection.execute(query.format(self._gid(prepared)))
        except (errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):  # none; another session ends it
            return False
        except errors.InsufficientPrivilege as error:
            statement = query.format(self._gid(prepared)).as_string(self.connection)
            raise another_users(self.table.where, self.table.pipeline, on_one_line(error), statement) from error
        return True

    def pending(self) -> list[Pending]:
        found = []
        for gid, since in self.connection.execute(_PENDING, [self._scope]).fetchall():
            named = Prepared.named(str(gid).removeprefix(self._scope))
            if named is not None:
                found.append(Pending(named, str(gid), str(since)))
        return found

    def verify(self) -> None:
        [(at_most, used)] = self.connection.execute(_ROOM).fetchall()
        if at_most == 0:
            action = "set max_prepared_transactions (to 10, for instance) and start the server again"
            raise cannot_prepare(self.table.where, _NEEDED, "max_prepared_transactions is 0", action)
        if used == at_most and not self.pending():
            found = f"{used} of {at_most} are in use"
            raise no_room(self.table.where, self.table.pipeline, expected=_NEEDED, found=found)

    def _roll_back(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except psycopg.Error:  # the connection is gone, and the transaction with it
            return

    def _gid(self, prepared: Prepared) -> sql.Literal:
        return sql.Literal(f"{self._scope}{prepared.name()}")

    @property
    def _scope(self) -> str:
        """What the names of this sink's begin with."""
        return f"lakemark:{self.table.lock:016x}:"
