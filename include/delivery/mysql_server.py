"""Connects to a MySQL or MariaDB server, and says in words what is wrong there.

`Any` are values of rows: only a query's author knows their types.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import LoadLocalPacketWrapper, MySQLResult  # type: ignore[attr-defined]  # types lack it
from pymysql.constants import CR, ER

from include.delivery.database import ANSWER_SECONDS
from include.delivery.ddl import Dialect, mysql
from include.delivery.sink_table import PROGRESS, SinkTable
from include.delivery.trouble import refuses, refuses_certificates, refuses_login, unreachable
from include.lake.damage import on_one_line
from include.sources.logins import DatabaseLogin

LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError)
_SECONDS = 10  # to connect
_SETTINGS = (
    # TRADITIONAL: nothing is cut or replaced in silence.
    "SET SESSION sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', innodb_lock_wait_timeout = 60, "
    "transaction_isolation = 'READ-COMMITTED'"
)
_OLDER_NAME = "tx_isolation"  # of the last one, in MariaDB before 11.1
_NO_LOGIN = (ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.BAD_DB_ERROR)
_NOT_THERE = (ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.BAD_DB_ERROR)
_NO_RIGHT = (ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1227)
_COMES_AGAIN = (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.SERVER_SHUTDOWN, ER.QUERY_INTERRUPTED, ER.DISK_FULL)


class _Result(MySQLResult):
    """A server may ask for any file of its client's machine: it gets the one that is being loaded."""

    def _read_load_local_packet(self, first_packet: Any) -> None:
        asked = LoadLocalPacketWrapper(first_packet).filename.decode()
        if not isinstance(self.connection, Connection) or asked != str(self.connection.loaded):
            raise pymysql.err.InterfaceError(CR.CR_LOAD_DATA_LOCAL_INFILE_REJECTED, "the server asked for another file")
        super()._read_load_local_packet(first_packet)  # type: ignore[misc]  # as above


class Connection(pymysql.connections.Connection):
    """A session of one delivery."""

    loaded: Path | None = None  # the file that the server may ask for

    @property
    def answer_seconds(self) -> float:
        """For each answer."""
        return float(self._read_timeout or 0)

    @answer_seconds.setter
    def answer_seconds(self, seconds: float) -> None:
        self._read_timeout = seconds

    def _read_query_result(self, unbuffered: bool = False) -> int:
        assert not unbuffered, "no cursor here is"
        result = _Result(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows or 0)

    def all(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of a query. Args: query: as the client wants it: %s for a value, %% for the character."""
        with self.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def run(self, statement: str, values: Any = ()) -> int:
        """Runs a statement, and returns how many rows it has changed. Args: statement: as for `all`."""
        with self.cursor() as cursor:
            return int(cursor.execute(statement, values))


def connected(table: SinkTable, login: DatabaseLogin, ca_file: str | None) -> Connection:
    """A session of one delivery.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login.
    """
    try:
        connection = Connection(
            host=login.host,
            port=login.port or 3306,
            database=login.database,
            user=login.username,
            password=login.password or "",
            charset="utf8mb4",
            autocommit=True,
            local_infile=True,
            connect_timeout=_SECONDS,
            read_timeout=ANSWER_SECONDS,
            write_timeout=ANSWER_SECONDS,
            program_name=table.application,
            ssl={"ca": ca_file, "check_hostname": True} if ca_file else None,
        )
        try:
            connection.run(_SETTINGS)
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.UNKNOWN_SYSTEM_VARIABLE:
                raise
            connection.run(_SETTINGS.replace("transaction_isolation", _OLDER_NAME))
        return connection
    except (FileNotFoundError, ssl.SSLError) as error:
        raise refuses_certificates(table.where, f"{ca_file}: {on_one_line(error)}") from error
    except pymysql.err.Error as error:
        if error.args and error.args[0] in _NO_LOGIN:
            raise refuses_login(table.where, login, _said(error)) from None  # the cause may quote the login
        raise unreachable(table.where, _said(error)) from error


@contextmanager
def errors_of(table: SinkTable) -> Iterator[None]:
    """What the server says, as Lakemark's errors."""
    create = f"`lakemark sinks create {table.pipeline} {table.name}` prints the statements; with --run it runs them"
    try:
        yield
    except pymysql.err.Error as error:
        number = error.args[0] if error.args else 0
        if number in _NOT_THERE:
            raise refuses(table.where, _said(error), f"make what is missing: {create}") from error
        if number in _NO_RIGHT:
            raise refuses(table.where, _said(error), f"grant the right to the user: {create}") from error
        if number in _COMES_AGAIN or (isinstance(error, LOST) and (number < 1000 or number >= 2000)):
            raise unreachable(table.where, _said(error)) from error
        evidence = _said(error)  # it may quote a value
        raise refuses(table.where, f"error {number}", table.unfit_advice, evidence=evidence) from None


def columns_there(connection: Connection, table: SinkTable) -> dict[str, str]:
    """The types of the columns of the sink's table, by name; none if there is no such table."""
    query = (
        "SELECT column_name, column_type FROM information_schema.columns WHERE table_name = %s "
        "AND table_schema = coalesce(%s, database()) ORDER BY ordinal_position"
    )
    return {str(name): str(type_) for name, type_ in connection.all(query, (table.table, table.schema))}


def has_key(connection: Connection, table: SinkTable) -> bool:
    """Whether a unique index finds each row of the sink's table by the sink's key."""
    keys = sorted(key.lower() for key in table.keys)
    return any(sorted(name.lower() for name in names) == keys for names in unique_indexes(connection, table).values())


def unique_indexes(connection: Connection, table: SinkTable) -> dict[str, list[str]]:
    """The columns of each unique index of the sink's table."""
    query = (
        "SELECT index_name, column_name FROM information_schema.statistics "
        "WHERE table_name = %s AND table_schema = coalesce(%s, database()) AND non_unique = 0"
    )
    found: dict[str, list[str]] = {}
    for index, column in connection.all(query, (table.table, table.schema)):
        found.setdefault(str(index), []).append(str(column))
    return found


def has_progress(connection: Connection, table: SinkTable) -> bool:
    """Whether the table of progress is there, and knows the sink."""
    if not columns_there(connection, replace(table, table=PROGRESS)):
        return False
    name = ".".join(f"`{part}`".replace("%", "%%") for part in (table.schema, PROGRESS) if part)
    query = f"SELECT 1 FROM {name} WHERE pipeline = %s AND sink = %s"
    return bool(connection.all(query, (table.pipeline, table.name)))


def _said(error: pymysql.err.Error) -> str:
    number, *texts = error.args or (0,)
    return on_one_line(Exception(f"{number} {' '.join(map(str, texts))}"))


def placed(connection: Connection, table: SinkTable) -> SinkTable:
    """The same table, with the database that it is in."""
    if table.schema is not None:
        return table
    [(database,)] = connection.all("SELECT database()")
    return replace(table, schema=str(database))


def account(connection: Connection) -> str:
    """Who delivers, as a GRANT names them."""
    [(user,)] = connection.all("SELECT current_user()")
    name, _, host = str(user).rpartition("@")
    return f"'{name}'@'{host}'"


def dialect(connection: Connection) -> Dialect:
    """How the server wants its statements."""
    [(version,)] = connection.all("SELECT version()")
    return mysql(str(version))


def run_all(connection: Connection, statements: Sequence[str]) -> None:
    """Runs them one after the other: each that makes a table is a transaction of its own there."""
    for statement in statements:
        connection.run(statement.replace("%", "%%"))
