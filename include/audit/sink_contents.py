"""What a sink holds, read by the plainest means, and what it must hold: the rows of the target at its version.

It shares no code with deliveries: these rows come from another reader of the table, and from the system's own client.
`Any` are values of rows.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pymysql
from confluent_kafka import Consumer, TopicPartition

from include.lake.delta_tables import OpenedTable, query
from include.lake.sql import sql_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import canonical, fields_of, nested, split
from include.pipeline_file.sink_columns import SinkColumn
from include.pipeline_file.sinks import Sink
from include.protocol.errors import RetryableError
from include.protocol.json_data import JsonObject
from include.sources.kafka_options import librdkafka_options
from include.sources.logins import database_login

Values = tuple[Any, ...]  # of a row, in the order of the columns
Rows = dict[Values, Values]  # by key
_SECONDS = 60.0


class Held(NamedTuple):
    """What a sink holds."""

    version: int | None  # of the table, by its own progress; None: it has got nothing yet
    rows: list[Values]


def in_the_lake(table: OpenedTable, columns: Sequence[SinkColumn], seen: str, without_nul: bool) -> list[Values]:
    """What a table holds for a sink. Args: table: at the sink's version. seen: SQL condition for its rows."""
    values = [
        f"{sql_name(LINEAGE)}['{column.path[1]}']" if column.path[0] == LINEAGE else sql_name(column.path[0])
        for column in columns
    ]
    names = ", ".join(f"{value} as c{n}" for n, value in enumerate(values))
    condition = seen.replace(f"{LINEAGE}.deleted", f"{LINEAGE}['deleted']")
    rows = query(table, f"select {names} from t where {condition}")
    plain = [_plain_of(column.type, without_nul) for column in columns]
    return _plainly(([row[f"c{n}"] for n in range(len(columns))] for row in rows), plain)


def by_key(rows: Iterable[Values], columns: Sequence[SinkColumn]) -> Rows:
    """Rows by the values of their keys."""
    places = [place for place, column in enumerate(columns) if column.is_key]
    return {tuple(values[place] for place in places): values for values in rows}


def held(pipeline: Pipeline, name: str, columns: Sequence[SinkColumn]) -> Held | None:
    """What a sink holds; None: it is of a kind that cannot be read.

    Raises:
        RetryableError: it does not answer.
    """
    sink = pipeline.sinks[name]
    readers: Mapping[str, Callable[[], Held]] = {
        "postgresql": lambda: _of_postgresql(pipeline, name, sink, columns),
        "mysql": lambda: _of_mysql(pipeline, name, sink, columns),
        "kafka": lambda: _of_kafka(pipeline, name, sink, columns),
    }
    try:
        return readers[sink.system]() if sink.system in readers else None
    except (psycopg.Error, pymysql.err.Error, OSError) as error:
        raise RetryableError(
            what="a sink cannot be read",
            where=f"{pipeline.name}, sink {name}",
            expected="an answer",
            found=f"{type(error).__name__}: {error}",
            action="see whether its server runs, and whether the user may read the table; then audit again",
        ) from error


def _of_postgresql(pipeline: Pipeline, name: str, sink: Sink, columns: Sequence[SinkColumn]) -> Held:
    login = database_login(sink.database, f"sinks.{name}")
    address = {"host": login.host, "port": login.port, "dbname": login.database, "user": login.username}
    tls = {"sslmode": "verify-full", "sslrootcert": sink.database.ca_file} if sink.database.ca_file else {}
    with psycopg.connect(**address, password=login.password, **tls, connect_timeout=10) as connection:  # type: ignore[arg-type]
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        beside = _beside(sink, '"')
        query = f"SELECT version FROM {beside} WHERE pipeline = %s AND sink = %s"
        found = connection.execute(query.encode(), [pipeline.name, name]).fetchone()
        with connection.cursor("rows") as cursor:
            rows = cursor.execute(_select(sink, columns, '"').encode())
            version = None if found is None else int(found[0])
            return Held(version, _plainly(rows, [_plain_of(c.type, True) for c in columns]))


def _of_mysql(pipeline: Pipeline, name: str, sink: Sink, columns: Sequence[SinkColumn]) -> Held:
    login = database_login(sink.database, f"sinks.{name}")
    connection = pymysql.connect(
        host=login.host,
        port=login.port or 3306,
        user=login.username,
        password=login.password or "",
        database=login.database,
        charset="utf8mb4",
        cursorclass=pymysql.cursors.SSCursor,
        ssl={"ca": sink.database.ca_file, "check_hostname": True} if sink.database.ca_file else None,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute(
            f"SELECT version FROM {_beside(sink, '`')} WHERE pipeline = %s AND sink = %s", (pipeline.name, name)
        )
        found = list(cursor.fetchall())
        cursor.execute(_select(sink, columns, "`"))
        rows = _plainly(cursor.fetchall_unbuffered(), [_plain_of(c.type, False) for c in columns])
        return Held(int(found[0][0]) if found else None, rows)


def _of_kafka(pipeline: Pipeline, name: str, sink: Sink, columns: Sequence[SinkColumn]) -> Held:
    """The last record of each key, as a reader sees it that reads all of the topic; of changes, all records."""
    place = sink.topic if sink.topic.bootstrap_servers is not None else pipeline.source
    options = {"group.id": "lakemark-audit", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**librdkafka_options(place), **options, "enable.auto.commit": False})  # type: ignore[arg-type]
    try:
        version = None
        for _, value in _records(consumer, f"{sink.topic.topic}.lakemark-progress"):
            version = int(json.loads(value or b"{}")["version"])
        newest: dict[object, JsonObject | None] = {}
        for number, (key, value) in enumerate(_records(consumer, sink.topic.topic)):
            told = None if value is None else json.loads(value, parse_float=Decimal)
            newest[number if sink.what == "changes" else key] = told
    finally:
        consumer.close()
    hides = sink.what != "changes"  # of those a delete is a change
    rows = (row for row in newest.values() if row is not None and not (hides and row.get("lakemark_deleted", False)))
    values = ([row[column.name] for column in columns] for row in rows)
    return Held(version, _plainly(values, [_of_json(column.type) for column in columns]))


def _records(consumer: Consumer, topic: str) -> Iterable[tuple[bytes, bytes | None]]:
    partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(_SECONDS)
        if message is None:
            raise OSError("Kafka does not answer")
        if message.error() is not None:
            ended += 1
        elif (key := message.key()) is not None:
            yield key, message.value()


def _select(sink: Sink, columns: Sequence[SinkColumn], quote: str) -> str:
    names = ", ".join(_quoted(column.name, quote) for column in columns)
    where = " WHERE NOT lakemark_deleted" if sink.flags_deletes else ""
    return f"SELECT {names} FROM {'.'.join(_quoted(part, quote) for part in sink.database.table.split('.'))}{where}"


def _beside(sink: Sink, quote: str) -> str:
    schema, _, _ = sink.database.table.rpartition(".")
    return ".".join(_quoted(part, quote) for part in (schema, "lakemark_progress") if part)


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _plainly(rows: Iterable[Sequence[Any]], plain: Sequence[Callable[[Any], Any]]) -> list[Values]:
    return [
        tuple(None if value is None else make(value) for value, make in zip(row, plain, strict=True)) for row in rows
    ]


def _plain_of(type_: str, without_nul: bool) -> Callable[[Any], Any]:
    """Makes one form of a value of all that clients make of it."""
    word = canonical(type_).partition("(")[0]
    match word:
        case "BOOLEAN":
            return bool
        case "FLOAT":
            return lambda value: struct.unpack("f", struct.pack("f", value))[0] if math.isfinite(value) else str(value)
        case "DOUBLE":
            return lambda value: float(value) if math.isfinite(value) else str(value)
        case "BINARY":
            return bytes
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return lambda value: value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        case "STRING":
            return _without_nul if without_nul else _same
    if nested(type_) is None:
        return lambda value: value
    told = _without_nul if without_nul else _same
    return lambda value: _normal(json.loads(value) if isinstance(value, str) else _json_of(value, type_, told))


def _of_json(type_: str) -> Callable[[Any], Any]:
    """Makes the same form of a value in JSON."""
    word = canonical(type_).partition("(")[0]
    if nested(type_) is not None:
        return _normal
    match word:
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return lambda value: datetime.fromisoformat(value).replace(tzinfo=None)
        case "DATE":
            return date.fromisoformat
        case "BINARY":
            return base64.b64decode
        case "DECIMAL":
            return lambda value: Decimal(str(value))
        case "FLOAT" | "DOUBLE":
            return lambda value: _plain_of(type_, False)(float(value))
    return lambda value: value


def _json_of(value: Any, type_: str, of_text: Callable[[str], str]) -> Any:
    """What JSON says of a nested value."""
    if value is None:
        return None
    match nested(type_):
        case ("STRUCT", inner):
            return {field.name: _json_of(value[field.name], field.type, of_text) for field in fields_of(inner)}
        case ("ARRAY", inner):
            return [_json_of(one, inner, of_text) for one in value]
        case ("MAP", inner):
            _, of_values = split(inner)
            pairs = value.items() if isinstance(value, dict) else value
            return {of_text(str(key)): _json_of(one, of_values, of_text) for key, one in pairs}
    match value:
        case str():
            return of_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            plain = value.astimezone(UTC) if value.tzinfo is not None else value
            return plain.strftime("%Y-%m-%dT%H:%M:%S.%f") + ("Z" if value.tzinfo is not None else "")
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _without_nul(text: str) -> str:
    return text.replace("\0", "�")


def _same(text: str) -> str:
    return text


def _normal(value: Any) -> str:
    """One text for equal values of JSON."""
    return json.dumps(value, sort_keys=True, default=lambda number: float(number))
