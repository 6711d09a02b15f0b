"""Opens a pipeline's sinks. Whoever adds a kind of sink adds one line here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from include.delivery import user_sink
from include.delivery.contract import Pending, TwoPhaseSink, WriteAheadSink
from include.delivery.database import DatabaseSink
from include.delivery.folder import FolderSink
from include.delivery.kafka import KafkaSink
from include.delivery.mysql import MysqlSink
from include.delivery.postgresql import PostgresqlSink
from include.delivery.sink_table import SinkTable
from include.delivery.sink_topic import SinkTopic
from include.outside import asking
from include.pipeline_file import Pipeline
from include.settings import Settings
from include.sources.logins import database_login


@contextmanager
def taken(settings: Settings, pipeline: Pipeline, name: str) -> Iterator[WriteAheadSink]:
    """A sink, taken from whoever had it, for as long as the context lasts.

    Args:
        name: the sink's in the pipeline file.

    Raises:
        RetryableError: it does not answer, or another delivery to it is under way. TerminalError: it refuses the login.
    """
    with asking(f"the sink {name}"):
        sink = _taken(settings, pipeline, name)
    try:
        yield sink
    finally:
        sink.close()


def pending(settings: Settings, pipeline: Pipeline, name: str) -> list[Pending]:
    """The transactions that a sink has prepared and nobody has ended. It takes the sink from nobody, and changes
    nothing there.

    Raises:
        RetryableError, TerminalError: as `taken`.
    """
    system = pipeline.sinks[name].system
    if system in ("kafka", "files"):
        return []
    sink = user_sink.taken(settings, pipeline, name) if system == "python" else _database(pipeline, name)
    try:
        return sink.pending() if isinstance(sink, TwoPhaseSink) else []
    finally:
        sink.close()


def _taken(settings: Settings, pipeline: Pipeline, name: str) -> WriteAheadSink:
    match pipeline.sinks[name].system:
        case "kafka":
            return KafkaSink.taken(SinkTopic.of(pipeline, name))
        case "files":
            return FolderSink.taken(settings, pipeline, name)
        case "python":
            return user_sink.taken(settings, pipeline, name)
    sink = _database(pipeline, name)
    sink.take()
    return sink


def _database(pipeline: Pipeline, name: str) -> DatabaseSink:
    section = pipeline.sinks[name]
    login = database_login(section.database, f"{pipeline.name}, sinks.{name}.{section.system}.connection")
    kind = PostgresqlSink if section.postgresql is not None else MysqlSink
    return kind.opened(SinkTable.of(pipeline, name), login, section.database.ca_file)
