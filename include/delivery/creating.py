"""Makes what a sink needs in its system, or says how."""

from __future__ import annotations

from collections.abc import Sequence

from include.delivery.ddl import statements
from include.delivery.postgresql_server import columns_there, connected, errors_of
from include.delivery.sink_table import SinkTable
from include.pipeline_file import Pipeline
from include.sources.logins import DatabaseLogin, database_login


def missing(pipeline: Pipeline, name: str) -> list[str]:
    """The statements that make what a sink needs and does not have. It asks the server, and changes nothing there.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login.
    """
    table, login = SinkTable.of(pipeline, name), _login(pipeline, name)
    with errors_of(table), connected(table, login, pipeline.sinks[name].place.ca_file) as connection:
        return statements(table, columns_there(connection, table), login.username)


def create(pipeline: Pipeline, name: str, wanted: Sequence[str]) -> None:
    """Runs the statements, all or none, as the user that the pipeline file names.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login, or a statement.
    """
    table, login = SinkTable.of(pipeline, name), _login(pipeline, name)
    ca_file = pipeline.sinks[name].place.ca_file
    with errors_of(table), connected(table, login, ca_file) as connection, connection.transaction():
        for statement in wanted:
            connection.execute(statement.encode())


def _login(pipeline: Pipeline, name: str) -> DatabaseLogin:
    sink = pipeline.sinks[name]
    return database_login(sink.place, f"{pipeline.name}, sinks.{name}.{sink.system}.connection")
