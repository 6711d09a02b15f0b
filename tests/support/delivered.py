"""A stream whose sink is a table in a database, and what delivers to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.control.deliveries import Deliverer
from include.delivery import mysql, postgresql
from include.delivery.creating import create, needed
from tests.support.sink_servers import SinkServer
from tests.support.stream import Stream

TWO_PHASE = {"mode": "two_phase", "begin": "start"}
DELIVER = ("sinks", "deliver", "p", "app")
POINTS = ("sink.taken", "sink.written", "sink.committed")
MODULES = {"postgresql": postgresql, "mysql": mysql}
KINDS = {"postgresql": postgresql.PostgresqlSink, "mysql": mysql.MysqlSink}
FIXTURES = {"postgresql": "postgres", "mysql": "maria"}
EACH_SERVER = pytest.mark.parametrize(  # `make test` runs a long test on one of them
    "server", ["postgresql", pytest.param("mysql", marks=pytest.mark.slow)], indirect=True
)


def stream_of(folder: Path, server: SinkServer, patch: pytest.MonkeyPatch, **more: object) -> Stream:
    """A pipeline whose sink has all that it needs."""
    found = Stream.of(folder, patch, app=server.section(**more))
    pipeline = found.coordinator.pipeline
    create(pipeline, "app", needed(pipeline, "app"))
    return found


def deliverer(stream: Stream) -> Deliverer:
    return Deliverer(stream.coordinator.settings, stream.coordinator.pipeline, "app")
