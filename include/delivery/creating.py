"""Makes what a sink needs in its system, or says how.

What stands as `Any` here is the connection of a server's own module, which alone knows its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from include.delivery import kafka_topics, mysql_server, postgresql_server
from include.delivery.ddl import Ddl, Dialect
from include.delivery.sink_table import SinkTable
from include.delivery.sink_topic import SinkTopic
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.sources.logins import DatabaseLogin, database_login


class Needed(NamedTuple):
    """What a sink needs and does not have, as statements; and what an administrator grants to who delivers."""

    statements: list[str]
    rights: list[str]

    def to_json(self) -> JsonObject:
        return self._asdict()


class _Server(Protocol):
    """A module that knows one kind of server."""

    def connected(self, table: SinkTable, login: DatabaseLogin, ca_file: str | None) -> Any: ...

    def errors_of(self, table: SinkTable) -> AbstractContextManager[None]: ...

    def columns_there(self, connection: Any, table: SinkTable) -> Mapping[str, Any]: ...

    def has_key(self, connection: Any, table: SinkTable) -> bool: ...

    def has_progress(self, connection: Any, table: SinkTable) -> bool: ...

    def account(self, connection: Any) -> str: ...

    def placed(self, connection: Any, table: SinkTable) -> SinkTable: ...

    def dialect(self, connection: Any) -> Dialect: ...

    def run_all(self, connection: Any, statements: Sequence[str]) -> None: ...


_SERVERS: Mapping[str, _Server] = {"postgresql": postgresql_server, "mysql": mysql_server}


def needed(pipeline: Pipeline, name: str) -> Needed:
    """What a sink needs. It asks the server, and changes nothing there.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login.
    """
    system = pipeline.sinks[name].system
    if system not in (*_SERVERS, "kafka"):  # it makes what it needs itself
        return Needed([], [])
    if system == "kafka":
        topic = SinkTopic.of(pipeline, name)
        return Needed(kafka_topics.as_commands(topic, kafka_topics.lacking(topic)), kafka_topics.rights(topic))
    table, server = SinkTable.of(pipeline, name), _SERVERS[system]
    with server.errors_of(table), _connected(pipeline, table, server) as connection:
        table = server.placed(connection, table)
        ddl = Ddl(table, server.dialect(connection), server.account(connection))
        there = server.columns_there(connection, table)
        has_key, has_progress = (of(connection, table) for of in (server.has_key, server.has_progress))
        return Needed(ddl.missing(tuple(there), has_key=has_key, has_progress=has_progress), ddl.rights())


def create(pipeline: Pipeline, name: str, wanted: Needed) -> None:
    """Makes what is needed, as the user that the pipeline file names.

    Raises:
        RetryableError: the server does not answer. TerminalError: it refuses the login, or a statement.
    """
    system = pipeline.sinks[name].system
    if system not in (*_SERVERS, "kafka"):
        return
    if system == "kafka":
        topic = SinkTopic.of(pipeline, name)
        kafka_topics.make(topic, kafka_topics.lacking(topic))
        return
    table, server = SinkTable.of(pipeline, name), _SERVERS[system]
    with server.errors_of(table), _connected(pipeline, table, server) as connection:
        server.run_all(connection, wanted.statements)


def _connected(pipeline: Pipeline, table: SinkTable, server: _Server) -> Any:
    place = pipeline.sinks[table.name].database
    login = database_login(place, f"{pipeline.name}, sinks.{table.name}.{table.system}.connection")
    return server.connected(table, login, place.ca_file)
