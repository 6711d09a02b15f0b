"""Connects to a PostgreSQL server, and says in words what is wrong there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen

from include.delivery.database import ANSWER_SECONDS
from include.delivery.ddl import POSTGRESQL, Dialect
from include.delivery.sink_table import PROGRESS, SinkTable
from include.delivery.trouble import refuses, refuses_certificates, refuses_login, unreachable
from include.lake.damage import on_one_line
from include.sources.logins import DatabaseLogin

LOST = (psycopg.OperationalError, psycopg.InterfaceError)
RV = TypeVar("RV")
_SECONDS = 10  # to connect
_SETTINGS = (
    "-c client_encoding=UTF8 -c timezone=UTC -c datestyle=ISO -c lock_timeout=60s -c statement_timeout=0 "
    "-c idle_in_transaction_session_timeout=60s"  # of a client that was stopped between two statements
)
_COLUMNS = """
SELECT a.attname, format_type(
  CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END,
  CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END
), c.collisdeterministic IS NOT FALSE
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


class Connection(psycopg.Connection[tuple[object, ...]]):
    """A session of one delivery. A server that is frozen keeps its connections: so each answer has its time."""

    answer_seconds: float = ANSWER_SECONDS

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        try:
            return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)
        except errors._WaitTimeout:
            self.pgconn.finish()  # else the end of a transaction would wait once more
            raise


def connected(table: SinkTable, login: DatabaseLogin, ca_file: str | None) -> Connection:
    """A session of one delivery.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login.
    """
    try:
        return Connection.connect(
            host=login.host,
            port=login.port,
            dbname=login.database,
            user=login.username,
            password=login.password,
            application_name=table.application,
            connect_timeout=_SECONDS,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
            options=_SETTINGS,
            autocommit=True,
            sslmode="verify-full" if ca_file else "prefer",
            sslrootcert=ca_file,
        )
    except psycopg.OperationalError as error:
        found = on_one_line(error)
        if ca_file is not None and ("SSL" in found or "certificate" in found or not Path(ca_file).is_file()):
            raise refuses_certificates(table.where, f"{ca_file}: {found}") from error
        if "authentication failed" in found or "does not exist" in found or "no password supplied" in found:
            raise refuses_login(table.where, login, found) from None  # the cause may quote the login
        raise unreachable(table.where, found) from error


@contextmanager
def errors_of(table: SinkTable) -> Iterator[None]:
    """What the server says, as Lakemark's errors."""
    create = f"`lakemark sinks create {table.pipeline} {table.name}` prints the statements; with --run it runs them"
    try:
        yield
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName, errors.UndefinedObject) as error:
        raise refuses(table.where, on_one_line(error), f"make what is missing: {create}") from error
    except errors.InsufficientPrivilege as error:
        raise refuses(table.where, on_one_line(error), f"grant the right to the user: {create}") from error
    except errors.ObjectNotInPrerequisiteState as error:
        raise refuses(table.where, on_one_line(error), "see the message of the server") from error
    except (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded) as error:
        found = f"{type(error).__name__} ({error.sqlstate}){_column(error)}"
        raise refuses(table.where, found, table.unfit_advice, evidence=on_one_line(error)) from None
    except LOST as error:
        raise unreachable(table.where, on_one_line(error)) from error
    except psycopg.Error as error:
        raise refuses(table.where, on_one_line(error), "see the message of the server") from error


def _column(error: psycopg.Error) -> str:
    named = [part for part in (error.diag.column_name, error.diag.constraint_name) if part]
    return f", {', '.join(named)}" if named else ""


class ColumnThere(NamedTuple):
    """A column as the server has it."""

    type: str  # of a domain, the one below it
    is_exact: bool  # its collation takes no text for another


def columns_there(connection: Connection, table: SinkTable) -> dict[str, ColumnThere]:
    """The columns of the sink's table, by name; none if there is no such table."""
    found = connection.execute(_COLUMNS.encode(), [_regclass(table)]).fetchall()
    return {str(name): ColumnThere(str(type_), bool(is_exact)) for name, type_, is_exact in found}


def has_key(connection: Connection, table: SinkTable) -> bool:
    """Whether a unique index finds each row of the sink's table by the sink's key, as ON CONFLICT needs it."""
    query = (
        "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid "
        "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indisvalid "
        "AND i.indpred IS NULL AND i.indexprs IS NULL AND a.attnum <= i.indnkeyatts GROUP BY i.indexrelid"
    )
    found = connection.execute(query, [_regclass(table)]).fetchall()
    return any(sorted(names) == sorted(table.keys) for (names,) in found)  # type: ignore[call-overload]


def has_progress(connection: Connection, table: SinkTable) -> bool:
    """Whether the table of progress is there, and knows the sink."""
    progress = replace(table, table=PROGRESS)
    if not columns_there(connection, progress):
        return False
    query = f"SELECT FROM {_regclass(progress)} WHERE pipeline = %s AND sink = %s"
    return bool(connection.execute(query.encode(), [table.pipeline, table.name]).fetchall())


def _regclass(table: SinkTable) -> str:
    """A table in a statement, as it is named there."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.table) if part)


def placed(connection: Connection, table: SinkTable) -> SinkTable:
    """The same table, with the schema that the server finds it in."""
    if table.schema is not None:
        return table
    [(schema,)] = connection.execute("SELECT current_schema()").fetchall()
    return replace(table, schema=None if schema is None else str(schema))


def account(connection: Connection) -> str:
    """Who delivers, as a GRANT names them."""
    [(user,)] = connection.execute("SELECT quote_ident(current_user)").fetchall()
    return str(user)


def dialect(connection: Connection) -> Dialect:
    """How the server wants its statements."""
    return POSTGRESQL


def run_all(connection: Connection, statements: Sequence[str]) -> None:
    """Runs all of them, or none."""
    with connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())
