"""Deliveries that are killed, stopped or overtaken, or whose server dies: nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from include.delivery import database
from include.delivery.contract import Delivery
from include.delivery.database import DatabaseSink
from include.protocol.errors import RetryableError
from tests.support.delivered import DELIVER, EACH_SERVER, KINDS, MODULES, POINTS, deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stopped import stopped
from tests.support.without_kafka import COMMAND, command

_OTHERS = ("sink.taken", "sink.committed")


@EACH_SERVER
@pytest.mark.parametrize("point", POINTS)
def test_a_delivery_that_is_killed_is_ended_by_the_next(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    for _ in range(3):
        stream.land()
    for _ in range(2):
        killed = command(*DELIVER, fault=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert command(*DELIVER).returncode == 0
    assert server.held() == stream.rows


@EACH_SERVER
@pytest.mark.parametrize("point", ["sink.written", *(pytest.param(p, marks=pytest.mark.slow) for p in _OTHERS)])
def test_a_delivery_that_was_stopped_loses_the_sink_and_changes_nothing_later(
    tmp_path: Path,
    server: SinkServer,
    monkeypatch: pytest.MonkeyPatch,
    zombies: list[subprocess.Popen],
    point: str,
) -> None:
    """The one that is stopped holds the sink's lock, and maybe the locks of rows."""
    monkeypatch.setattr(database, "STILL_SECONDS", 0.5)
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    env = {**os.environ, "LAKEMARK_TEST_FAULT": f"{point}=stop"}
    zombie = subprocess.Popen([*COMMAND, *DELIVER], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    zombies.append(zombie)
    stopped(zombie)
    stream.land()
    done = deliverer(stream).deliver()
    assert done is not None and server.held() == stream.rows
    stream.land()
    assert deliverer(stream).deliver() is not None
    zombie.send_signal(signal.SIGCONT)
    zombie.wait(60)
    assert server.held() == stream.rows


def test_the_progress_is_compared_before_it_is_set(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock of the session, the row alone keeps a delivery from coming twice."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    kind = KINDS[server.system]
    write = kind.deliver

    def overtaken(self: DatabaseSink, delivery: Delivery) -> int:
        monkeypatch.setattr(kind, "deliver", write)
        monkeypatch.setattr(kind, "take", lambda self: None)
        assert deliverer(stream).deliver() is not None
        return write(self, delivery)

    monkeypatch.setattr(kind, "deliver", overtaken)
    with pytest.raises(RetryableError, match="another delivery to this sink was faster"):
        deliverer(stream).deliver()
    assert server.held() == stream.rows


@EACH_SERVER
def test_a_server_that_dies_in_a_delivery_has_all_of_it_or_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, server: SinkServer
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    for dies_at in POINTS[1:]:
        stream.land()
        passed = []

        def dies(point: str, dies_at: str = dies_at, passed: list[str] = passed) -> None:
            if point == dies_at and not passed:
                passed.append(point)
                server.kill()

        monkeypatch.setattr(MODULES[server.system], "fault_point", dies)
        if dies_at == "sink.written":
            with pytest.raises(RetryableError, match="does not answer"):
                deliverer(stream).deliver()
        else:
            deliverer(stream).deliver()
        server.start()
        assert deliverer(stream).deliver() is not None
        assert server.held() == stream.rows


def test_a_lost_answer_is_asked_for(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit has taken effect, and the connection is lost before the answer."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    lost: list[str] = []
    if server.system == "postgresql":
        of, name, error = psycopg.Transaction, "__exit__", psycopg.OperationalError("the connection was closed")
    else:
        of, name, error = pymysql.connections.Connection, "commit", pymysql.err.OperationalError(2013, "lost")
    ended = getattr(of, name)

    def ends(self: Any, *told: object) -> object:
        found = ended(self, *told)
        if not lost:
            lost.append("")
            raise error
        return found

    monkeypatch.setattr(of, name, ends)
    done = deliverer(stream).deliver()
    assert lost and done is not None and done.progress is not None and done.progress.version == 1
    assert server.held() == stream.rows


@EACH_SERVER
@pytest.mark.parametrize(
    ("guarantee", "point", "right"),
    [
        ("at_least_once", "sink.written", True),
        ("at_most_once", "sink.committed", False),
    ],
)
def test_a_weaker_guarantee_orders_rows_and_progress(
    tmp_path: Path,
    server: SinkServer,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: str,
    point: str,
    right: bool,
) -> None:
    """Killed after the first of two transactions: at most once has lost the rows."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start", guarantee=guarantee)
    stream.land()
    assert command(*DELIVER, fault=point).returncode == -signal.SIGKILL
    assert command(*DELIVER).returncode == 0
    assert (server.held() == stream.rows) is right


@pytest.mark.slow
def test_a_sink_that_was_away_for_sixty_batches_gets_them_all_in_order(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch waits for it: what lands asks no sink."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    server.stop()
    for _ in range(60):
        stream.land()
    with pytest.raises(RetryableError, match="does not answer"):
        deliverer(stream).deliver()
    assert deliverer(stream).standing.problem is not None
    server.start()
    told: list[str] = []
    done = replace(deliverer(stream), say=told.append).deliver()
    assert done is not None and done.deliveries == 60
    order = [f"version {number} of" for number in range(1, 61)]
    assert [expected in text for expected, text in zip(order, told, strict=True)] == [True] * 60
    assert server.held() == stream.rows
