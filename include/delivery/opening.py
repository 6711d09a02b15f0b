"""Opens a pipeline's sinks. Whoever adds a kind of sink adds one line here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from include.delivery.contract import WriteAheadSink
from include.delivery.folder import FolderSink
from include.delivery.kafka import KafkaSink
from include.delivery.mysql import MysqlSink
from include.delivery.postgresql import PostgresqlSink
from include.delivery.sink_table import SinkTable
from include.delivery.sink_topic import SinkTopic
from include.delivery.user_class import UserClassSink
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
    sink = _opened(settings, pipeline, name)
    try:
        yield sink
    finally:
        sink.close()


def _opened(settings: Settings, pipeline: Pipeline, name: str) -> WriteAheadSink:
    section = pipeline.sinks[name]
    match section.system:
        case "kafka":
            return KafkaSink.taken(SinkTopic.of(pipeline, name))
        case "files":
            return FolderSink.taken(pipeline, name)
        case "python":
            return UserClassSink.taken(settings, pipeline, name)
    login = database_login(section.database, f"{pipeline.name}, sinks.{name}.{section.system}.connection")
    table, ca_file = SinkTable.of(pipeline, name), section.database.ca_file
    if section.postgresql is not None:
        return PostgresqlSink.taken(table, login, ca_file)
    return MysqlSink.taken(table, login, ca_file)
