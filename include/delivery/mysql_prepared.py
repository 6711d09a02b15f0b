"""XA transactions of MySQL and MariaDB: they outlive the session and the server, and no time-out ends them.

A transaction belongs to the session that has prepared it for as long as that lives; then any session may end it. They
are the whole server's: the name of each begins with what only this sink's have. Its rows are in the binary log from XA
PREPARE on, before anybody knows how it ends.

Source: MySQL's and MariaDB's manuals, "XA Transactions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pymysql
from pymysql.constants import ER

from include.delivery.contract import Pending
from include.delivery.mysql_server import Connection
from include.delivery.prepared import PreparedTransactions
from include.delivery.sink_table import SinkTable
from include.delivery.trouble import cannot_prepare
from include.fault_points import fault_point
from include.protocol.two_phase import Prepared

_FORMAT = 0x4C4B  # of Lakemark's
_NOTA, _RBROLLBACK = 1397, 1402  # there is none, or another session has it; it was rolled back
_NO_RIGHT = ER.SPECIFIC_ACCESS_DENIED_ERROR
_OLDEST = {"MariaDB": (10, 5), "MySQL": (8, 0)}


@dataclass(frozen=True)
class MysqlPrepared(PreparedTransactions):
    """See `PreparedTransactions`. Args: scope: what tells this sink's from others, at most 64 bytes of ASCII."""

    table: SinkTable
    connection: Connection
    scope: str

    @contextmanager
    def preparing(self, prepared: Prepared) -> Iterator[None]:
        xid = self._xid(prepared)
        self.connection.run(f"XA START {xid}")
        try:
            yield
            fault_point("sink.written")
            self.connection.run(f"XA END {xid}")
            self.connection.run(f"XA PREPARE {xid}")
        except BaseException:
            for statement in (f"XA END {xid}", f"XA ROLLBACK {xid}"):
                with suppress(pymysql.err.Error):  # it has ended; or the connection has, and the transaction with it
                    self.connection.run(statement)
            raise

    def end(self, prepared: Prepared, commits: bool) -> bool:
        try:
            self.connection.run(f"XA {'COMMIT' if commits else 'ROLLBACK'} {self._xid(prepared)}")
        except pymysql.err.Error as error:
            if error.args[0] in (_NOTA, _RBROLLBACK):
                return False
            raise
        return True

    def pending(self) -> list[Pending]:
        found = []
        for format_id, length, _, data in self._in_recovery():
            text = data.decode("ascii", "replace") if isinstance(data, bytes) else str(data)
            named = Prepared.named(text[length:])
            if format_id == _FORMAT and text[:length] == self.scope and named is not None:
                found.append(Pending(named, self._xid(named)))
        return found

    def _in_recovery(self) -> list[tuple[int, int, int, bytes | str]]:
        """All prepared transactions of the server that no living session has."""
        try:
            return [(int(form), int(g), int(b), data) for form, g, b, data in self.connection.all("XA RECOVER")]
        except pymysql.err.Error as error:
            if error.args[0] == _NO_RIGHT and self.table.mode != "two_phase":
                return []  # MySQL shows them only to users with XA_RECOVER_ADMIN
            raise

    def verify(self) -> None:
        [(version, log_bin)] = self.connection.all("SELECT version(), @@log_bin")
        product = "MariaDB" if "mariadb" in str(version).lower() else "MySQL"
        oldest = _OLDEST[product]
        if tuple(int(part) for part in re.findall(r"\d+", str(version))[:2]) < oldest:
            wanted = f"{product} {'.'.join(map(str, oldest))} or later: before, a session's end rolled them back"
            raise cannot_prepare(self.table.where, wanted, str(version), "take a later server")
        detaches = self.connection.all("SHOW VARIABLES LIKE 'xa_detach_on_prepare'")
        if any(str(value).upper() == "ON" for _, value in detaches):
            raise cannot_prepare(
                self.table.where,
                expected="xa_detach_on_prepare = OFF: with it, a transaction may use no temporary table",
                found="ON",
                action="set it OFF for the sessions of this user (or `SET GLOBAL xa_detach_on_prepare = OFF`)",
            )
        if int(log_bin) and not self.table.binary_log:
            raise cannot_prepare(
                self.table.where,
                expected="no binary log: it gets the rows at XA PREPARE, before anybody knows how the transaction ends",
                found="log_bin is on",
                action="if whoever reads it (replicas, change capture) may see rows that are rolled back later, let "
                "the section `mysql` say `binary_log: accepted`",
            )

    def _xid(self, prepared: Prepared) -> str:
        return f"'{self.scope}','{prepared.name()}',{_FORMAT}"
