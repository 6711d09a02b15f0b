"""What a sink holds, read by the plainest means, and what it must hold: the rows of the target at its version.

It shares no code with deliveries: these rows come from another reader of the table, and from the system's own client.
`Any` are values of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pymysql
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pymysql.constants import FIELD_TYPE

from include.audit.sink_values import ForeignValue, OfText, as_it_is, as_json, plain, without_nul
from include.lake.damage import on_one_line
from include.lake.delta_tables import OpenedTable, arrow_schema, query
from include.lake.sql import sql_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import canonical, nested
from include.pipeline_file.sink_columns import SinkColumn
from include.pipeline_file.sinks import Sink
from include.protocol.errors import RetryableError
from include.sources.kafka_options import librdkafka_options
from include.sources.logins import database_login

Values = tuple[Any, ...]  # of a row, in the order of the columns
Rows = dict[Values, Values]  # by key
_SECONDS = 60.0
_JSON_OF_POSTGRESQL = (114, 3802)  # json, jsonb: their numbers in `pg_type`


class Stands(NamedTuple):
    """What a sink says of itself."""

    table_id: str
    version: int
    generation: int
    batch_id: int


class Held(NamedTuple):
    """What a sink holds."""

    stands: Stands | None  # by its own progress; None: it has got nothing yet
    rows: list[Values]
    foreign: list[str]  # what no delivery has written, in words
    of_texts: Sequence[OfText]  # of the columns: what the system makes of a text


class _Read(NamedTuple):
    """A row that was read. Args: place: where, for people. values: of the columns; None: it is no row at all."""

    place: str
    values: Sequence[Any] | None


def in_the_lake(
    table: OpenedTable, columns: Sequence[SinkColumn], seen: str, of_texts: Sequence[OfText]
) -> list[Values]:
    """What a table holds for a sink. Of a column that it does not have yet every value is null. Args: table: at the
    sink's version. seen: SQL condition for its rows. of_texts: see `Held`."""
    there = arrow_schema(table).names

    def value(column: SinkColumn) -> str:
        if column.path[0] == LINEAGE:
            return f"{sql_name(LINEAGE)}['{column.path[1]}']"
        return sql_name(column.path[0]) if column.path[0] in there else "NULL"

    names = ", ".join(f"{value(column)} as c{n}" for n, column in enumerate(columns))
    condition = seen.replace(f"{LINEAGE}.deleted", f"{LINEAGE}['deleted']")
    rows = query(table, f"select {names} from t where {condition}")
    make = _maker(columns, of_texts)
    return [make([row[f"c{n}"] for n in range(len(columns))]) for row in rows]


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
    except (psycopg.Error, pymysql.err.Error, KafkaException, OSError) as error:
        raise RetryableError(
            what="a sink cannot be read",
            where=f"{pipeline.name}, sink {name}",
            expected="an answer",
            found=f"{type(error).__name__}: {on_one_line(error)}",
            action="see whether its server runs, and whether the user may read the table; then audit again",
        ) from error


def _of_postgresql(pipeline: Pipeline, name: str, sink: Sink, columns: Sequence[SinkColumn]) -> Held:
    login = database_login(sink.database, f"sinks.{name}")
    with psycopg.connect(
        host=login.host,
        port=login.port,
        dbname=login.database,
        user=login.username,
        password=login.password,
        sslmode="verify-full" if sink.database.ca_file else "prefer",
        sslrootcert=sink.database.ca_file,
        connect_timeout=10,
        options="-c timezone=UTC -c datestyle=ISO",  # whatever the server's or the user's own are
    ) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        beside = _beside(sink, '"')
        query = f"SELECT {', '.join(Stands._fields)} FROM {beside} WHERE pipeline = %s AND sink = %s"
        found = connection.execute(query.encode(), [pipeline.name, name]).fetchone()
        names = [_quoted(column.name, '"') for column in columns]
        of_types = connection.execute(_select(sink, names, '"').encode() + b" LIMIT 0").description or []
        # Texts of what may be JSON: the client would make numbers of it that lose digits.
        read = [f"{n}::text" if _is_text(c) or nested(c.type) else n for n, c in zip(names, columns, strict=True)]
        of_texts = [
            as_json if _is_text(column) and of_type.type_code in _JSON_OF_POSTGRESQL else without_nul
            for column, of_type in zip(columns, of_types, strict=True)
        ]
        with connection.cursor("rows") as cursor:
            rows = _numbered(cursor.execute(_select(sink, read, '"').encode()))
            return _held(None if found is None else Stands(*found), rows, columns, of_texts)


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
            f"SELECT {', '.join(Stands._fields)} FROM {_beside(sink, '`')} WHERE pipeline = %s AND sink = %s",
            (pipeline.name, name),
        )
        found = list(cursor.fetchall())
        cursor.execute(_select(sink, [_quoted(column.name, "`") for column in columns], "`"))
        of_texts = [
            as_json if _is_text(column) and of_type[1] == FIELD_TYPE.JSON else as_it_is
            for column, of_type in zip(columns, cursor.description, strict=True)
        ]
        rows = _numbered(cursor.fetchall_unbuffered())
        return _held(Stands(*found[0]) if found else None, rows, columns, of_texts)


def _of_kafka(pipeline: Pipeline, name: str, sink: Sink, columns: Sequence[SinkColumn]) -> Held:
    """The last record of each key, as a reader sees it that reads all of the topic; of changes, all records."""
    place = sink.topic if sink.topic.bootstrap_servers is not None else pipeline.source
    options = {"group.id": "lakemark-audit", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**librdkafka_options(place), **options, "enable.auto.commit": False})  # type: ignore[arg-type]
    newest: dict[object, Message] = {}
    try:
        stands = None
        for message in _messages(consumer, f"{sink.topic.topic}.lakemark-progress"):
            stands = _stands(message, stands)
        for number, message in enumerate(_messages(consumer, sink.topic.topic)):
            newest[number if sink.what == "changes" or message.key() is None else message.key()] = message
    finally:
        consumer.close()
    hides = sink.what != "changes"  # of those a delete is a change
    return _held(stands, _records(newest.values(), columns, hides), columns, [as_it_is] * len(columns))


def _messages(consumer: Consumer, topic: str) -> Iterator[Message]:
    """All messages of a topic that transactions have committed. Raises KafkaException, OSError: it cannot be read."""
    told = consumer.list_topics(topic, timeout=_SECONDS).topics[topic]
    if told.error is not None:
        raise KafkaException(told.error)
    consumer.assign([TopicPartition(topic, number, 0) for number in told.partitions])
    ended = 0
    while ended < len(told.partitions):
        message = consumer.poll(_SECONDS)
        if message is None:
            raise OSError("Kafka does not answer")
        if (error := message.error()) is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            ended += 1
        else:
            raise KafkaException(error)


def _stands(message: Message, before: Stands | None) -> Stands | None:
    """What a record of progress says. One that says nothing is no delivery's."""
    try:
        told = json.loads(message.value() or b"")
        return Stands(*(told[name] for name in Stands._fields))
    except (ValueError, TypeError, LookupError):
        return before


def _records(messages: Iterable[Message], columns: Sequence[SinkColumn], hides: bool) -> Iterator[_Read]:
    """The rows of records. A field that a record does not have came later: it is null. Args: hides: a record with
    `lakemark_deleted` removes its row."""
    for message in messages:
        place = f"offset {message.offset()} of partition {message.partition()}"
        if message.key() is None:
            yield _Read(place, None)
        elif (content := message.value()) is not None:
            try:
                row = json.loads(content, parse_float=Decimal)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                yield _Read(place, None)
            elif not (hides and row.get("lakemark_deleted", False)):
                yield _Read(place, [row.get(column.name) for column in columns])


def _held(
    stands: Stands | None, read: Iterable[_Read], columns: Sequence[SinkColumn], of_texts: Sequence[OfText]
) -> Held:
    rows: list[Values] = []
    foreign: list[str] = []
    make = _maker(columns, of_texts)
    for place, values in read:
        try:
            if values is None:
                raise ForeignValue
            rows.append(make(values))
        except ForeignValue:
            foreign.append(place)
    return Held(stands, rows, foreign, of_texts)


def _maker(columns: Sequence[SinkColumn], of_texts: Sequence[OfText]) -> Callable[[Sequence[Any]], Values]:
    """Makes the form of a row in which those of the lake and of a sink are compared (see `plain`)."""
    each = [plain(column.type, of_text) for column, of_text in zip(columns, of_texts, strict=True)]
    return lambda values: tuple(make(value) for make, value in zip(each, values, strict=True))


def _numbered(rows: Iterable[Sequence[Any]]) -> Iterator[_Read]:
    return (_Read(f"row {number}", row) for number, row in enumerate(rows, 1))


def _is_text(column: SinkColumn) -> bool:
    return canonical(column.type) == "STRING"


def _select(sink: Sink, values: Sequence[str], quote: str) -> str:
    where = " WHERE NOT lakemark_deleted" if sink.flags_deletes else ""
    table = ".".join(_quoted(part, quote) for part in sink.database.table.split("."))
    return f"SELECT {', '.join(values)} FROM {table}{where}"


def _beside(sink: Sink, quote: str) -> str:
    """The table of progress, in a query with values."""
    schema, _, _ = sink.database.table.rpartition(".")
    parts = [part for part in (schema, "lakemark_progress") if part]
    return ".".join(_quoted(part, quote).replace("%", "%%") for part in parts)


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote
