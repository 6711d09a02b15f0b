"""Sinks that move with the lake (`mode: two_phase`): whoever is killed or stopped where, both have a batch or neither.

An attempt is the lane's, without Spark; its commit, the ledger and the servers are real.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from random import Random

import pytest

from include.delivery import database
from include.lake.table_log import TableLog
from tests.support.delivered import deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stopped import stopped
from tests.support.stream import Stream, attempt, process, some

POINTS = ("sink.taken", "sink.written", "sink.prepared", "sink.landed")
TWO_PHASE = {"mode": "two_phase", "begin": "start"}


def pending(server: SinkServer) -> int:
    """How many prepared transactions the server has."""
    table = "pg_prepared_xacts" if server.system == "postgresql" else ""
    return len(server.rows(f"SELECT gid FROM {table}" if table else "XA RECOVER"))


def landed(stream: Stream) -> bool:
    """Whether the batch that comes next has landed."""
    log = TableLog.open(stream.coordinator.tables.target)
    assert log is not None
    return log.version > len(stream.changes)


def test_a_batch_is_in_both(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    for _ in range(3):
        stream.land()
        assert server.held() == stream.rows
    assert pending(server) == 0
    standing = deliverer(stream).standing
    assert standing.progress is not None and standing.progress.version == 3


@pytest.mark.parametrize("point", POINTS)
def test_an_attempt_that_is_killed_is_ended_by_the_next(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    killed = process(1, changes, "first", f"{point}=kill")
    told = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, told
    assert landed(stream) == (point == "sink.landed")
    assert pending(server) == (point in ("sink.prepared", "sink.landed"))
    assert server.held() == stream.rows, "nothing of it is seen yet"
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    assert server.held() == stream.rows
    assert pending(server) == 0


@pytest.mark.parametrize("point", ["sink.prepared", "sink.landed"])
def test_a_delivery_ends_what_a_killed_attempt_has_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    process(1, changes, "first", f"{point}=kill").communicate(timeout=60)
    assert deliverer(stream).deliver() is not None
    assert pending(server) == 0
    if point == "sink.landed":
        stream.settle(changes)
    assert server.held() == stream.rows


def test_an_attempt_that_wakes_up_after_its_transaction_was_rolled_back_and_lands_loses_nothing(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen]
) -> None:
    """It was stopped between prepare and point; a delivery takes the sink, and rolls back; then it makes its commit."""
    monkeypatch.setattr(database, "STILL_SECONDS", 0.5)
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    zombie = process(1, changes, "first", "sink.prepared=stop")
    zombies.append(zombie)
    stopped(zombie)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows and pending(server) == 0 and not landed(stream)
    zombie.send_signal(signal.SIGCONT)
    told = zombie.communicate(timeout=60)
    assert zombie.returncode == 0 and landed(stream), told
    stream.settle(changes)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows
    stream.land()
    assert server.held() == stream.rows and pending(server) == 0


@pytest.mark.parametrize("point", ["sink.taken", "sink.prepared", "sink.landed"])
def test_an_attempt_that_another_one_has_overtaken_changes_nothing_when_it_wakes_up(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen], point: str
) -> None:
    monkeypatch.setattr(database, "STILL_SECONDS", 0.5)
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    zombie = process(1, changes, "first", f"{point}=stop")
    zombies.append(zombie)
    stopped(zombie)
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    stream.land()
    assert server.held() == stream.rows
    zombie.send_signal(signal.SIGCONT)
    zombie.communicate(timeout=60)
    assert server.held() == stream.rows and pending(server) == 0
    stream.land()
    assert server.held() == stream.rows
