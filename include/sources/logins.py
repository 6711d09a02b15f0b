"""Who logs in at Kafka and at a schema registry: a name and a password, from variables or from an Airflow connection.

A connection is looked up when a client is made, never when a file is read: Airflow reads files all the time, and a
password that was changed counts from the next client on. A connection is in the environment, as Airflow names it there,
or where a program says (`look_up_with`): Airflow's own processes ask Airflow.

Source: Airflow's docs, "Managing Connections" (AIRFLOW_CONN_ID, as JSON or as a URI).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from include.pipeline_file import Pipeline, Registry, Security
from include.pipeline_file.sinks import Database
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.settings import airflow_connection, variable_of_connection

LookUp = Callable[[str], str | None]  # from a connection's id to the connection, as JSON or as a URI; None: unknown
_look_ups: list[LookUp] = [airflow_connection]


class Login(NamedTuple):
    username: str
    password: str


class DatabaseLogin(NamedTuple):
    """Who logs in at which database."""

    host: str
    port: int | None  # None: the system's usual one
    database: str
    username: str
    password: str | None


def look_up_with(look_up: LookUp) -> None:
    """Adds a place where connections are. The environment comes first."""
    if look_up not in _look_ups:
        _look_ups.append(look_up)


def login_of(section: Security | Registry) -> Login | None:
    """The login that a section of a pipeline file describes; None if it describes none.

    Raises:
        RetryableError: there is no such connection, or Airflow could not be asked. TerminalError: it holds no login.
    """
    if section.connection is not None:
        return _login_in(section.connection)
    if section.username is None:
        return None
    return Login(section.username, section.password.get_secret_value() if section.password else "")


def database_login(section: Database, where: str) -> DatabaseLogin:
    """Where a sink's database is, and who logs in there.

    Args:
        where: the section's place in the pipeline file, for errors.

    Raises:
        RetryableError: there is no such connection, or Airflow could not be asked. TerminalError: it lacks something.
    """
    if section.connection is None:
        assert section.host and section.database and section.username, "the file's own check asks for them"
        password = section.password and section.password.get_secret_value()
        return DatabaseLogin(
            host=section.host,
            port=section.port,
            database=section.database,
            username=section.username,
            password=password or None,
        )
    held = _connection(section.connection, where)
    needed = {"host": held.get("host"), "schema (the database)": held.get("schema"), "login": held.get("login")}
    if missing := [name for name, value in needed.items() if not value]:
        raise TerminalError(
            what=f"the Airflow connection {section.connection} does not say where a database is",
            where=where,
            expected=f"{', '.join(needed)}, and maybe port and password",
            found=f"no {', no '.join(missing)}",
            action="complete the connection in Airflow (Admin, Connections), or where its variable is set",
        )
    host, database, username = map(str, needed.values())
    if not str(held.get("port") or "1").isdecimal():
        raise TerminalError(
            what=f"the Airflow connection {section.connection} does not say where a database is",
            where=where,
            expected="a number as the port, or none",
            found="something else",
            action="correct the connection in Airflow (Admin, Connections), or where its variable is set",
        )
    port = section.port or (int(held["port"]) if held.get("port") else None)
    password = str(held["password"]) if held.get("password") else None
    return DatabaseLogin(host=host, port=port, database=database, username=username, password=password)


def connection_variables(pipeline: Pipeline) -> dict[str, str]:
    """The connections that a pipeline names, as variables for the environment of a process that has no Airflow.

    Unknown ones are left out: the process that needs one says so."""
    found = {name: _found(name) for name in _named(pipeline)}
    return {variable_of_connection(name): text for name, text in found.items() if text is not None}


def _named(pipeline: Pipeline) -> Iterator[str]:
    for section in (pipeline.source.security, pipeline.source.registry):
        if section is not None and section.connection is not None:
            yield section.connection
    for sink in pipeline.sinks.values():
        place = sink.kafka.security if sink.kafka is not None else sink.postgresql or sink.mysql
        if place is not None and place.connection is not None:
            yield place.connection


def _found(name: str) -> str | None:
    return next((text for look_up in _look_ups if (text := look_up(name)) is not None), None)


def _login_in(name: str) -> Login:
    where = "source.security or source.registry of the pipeline file"
    connection = _connection(name, where)
    extra = connection.get("extra") or {}
    username = connection.get("login") or extra.get("sasl.username")
    password = connection.get("password") or extra.get("sasl.password")
    if not username or not password:
        raise TerminalError(
            what=f"the Airflow connection {name} holds no login",
            where=where,
            expected="login and password; or sasl.username and sasl.password in its extra fields",
            found="neither" if not username and not password else "no password" if username else "no login",
            action="complete the connection in Airflow (Admin, Connections), or where its variable is set",
        )
    return Login(str(username), str(password))


def _connection(name: str, where: str) -> JsonObject:
    """A connection as data; empty if it is none. Args: where: in the pipeline file it is named."""
    text = _found(name)
    if text is None:
        raise RetryableError(
            what=f"the Airflow connection {name} is not known",
            where=where,
            expected="a connection with that id",
            found="none",
            action=f"add it in Airflow (Admin, Connections); or, for commands, set {variable_of_connection(name)}",
        )
    try:
        return _read(text)
    except ValueError:  # without a cause: it may quote the text
        return {}


def _read(text: str) -> JsonObject:
    """A connection as data: host, port, schema, login, password and extra. Raises ValueError if it is none."""
    if text.lstrip().startswith("{"):
        connection: JsonObject = json.loads(text)
    else:
        uri = urlsplit(text)
        fields = {field: values[-1] for field, values in parse_qs(uri.query, keep_blank_values=True).items()}
        given = fields.pop("__extra__", None)
        connection = {
            "host": unquote(uri.hostname or ""),
            "port": uri.port,
            "schema": unquote(uri.path.strip("/")),
            "login": unquote(uri.username or ""),
            "password": unquote(uri.password or ""),
            "extra": fields if given is None else given,
        }
    extra = connection.get("extra")
    extra = json.loads(extra) if isinstance(extra, str) and extra else extra
    return {**connection, "extra": extra if isinstance(extra, dict) else {}}
