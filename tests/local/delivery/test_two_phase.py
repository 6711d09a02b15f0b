"""Sinks that move with the lake (`mode: two_phase`): whoever is killed or stopped where, both have a batch or neither.

An attempt is the lane's, without Spark; its commit, the ledger and the servers are real.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.control import two_phase
from include.delivery import database
from include.lake.table_log import TableLog
from include.outside import heard_by
from include.protocol.errors import RetryableError
from include.protocol.two_phase import Prepared
from tests.support.delivered import EACH_SERVER, TWO_PHASE, deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stopped import stopped
from tests.support.stream import Change, Stream, attempt, process
from tests.support.without_kafka import command

_EARLY = tuple(pytest.param(point, marks=pytest.mark.slow) for point in ("sink.taken", "sink.written"))
POINTS = (*_EARLY, "sink.prepared", "sink.landed")


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
    assert server.prepared() == []
    standing = deliverer(stream).standing
    assert standing.progress is not None and standing.progress.version == 3


@pytest.mark.timeout(60, func_only=True)
@EACH_SERVER
def test_an_attempt_says_so_whenever_it_waits_for_the_sink(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stands still whenever nobody says that they wait for it. So a group gives the turn's place to others
    at whichever answer a server stops."""
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    heard: list[str | None] = []

    def listen(system: str | None) -> None:
        heard.append(system)
        server.freeze(system is None)

    def land(changes: list[Change]) -> None:
        server.freeze()
        try:
            with heard_by(listen):
                stream.land(changes)
        finally:
            server.freeze(False)
        assert server.held() == stream.rows

    stream.land()
    land(stream.killed_at("sink.prepared"))  # what that one has prepared is ended
    assert command("sinks", "pause", "p", "app", "--reason", "to lack a batch").returncode == 0
    stream.land()
    assert command("sinks", "resume", "p", "app", "--reason", "to get it").returncode == 0
    land(stream.coming())
    assert set(heard) == {"the sink app", None} and heard[-1] is None


@pytest.mark.parametrize("point", POINTS)
def test_an_attempt_that_is_killed_is_ended_by_the_next(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = stream.killed_at(point)
    assert landed(stream) == (point == "sink.landed")
    assert len(server.prepared()) == (point in ("sink.prepared", "sink.landed"))
    assert server.held() == stream.rows, "nothing of it is seen yet"
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    assert server.held() == stream.rows
    assert server.prepared() == []


@EACH_SERVER
@pytest.mark.parametrize("point", ["sink.prepared", "sink.landed"])
def test_a_delivery_ends_what_a_killed_attempt_has_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = stream.killed_at(point)
    assert deliverer(stream).deliver() is not None
    assert server.prepared() == []
    if point == "sink.landed":
        stream.settle(changes)
    assert server.held() == stream.rows


@EACH_SERVER
def test_an_attempt_that_wakes_up_after_its_transaction_was_rolled_back_and_lands_loses_nothing(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen]
) -> None:
    """It was stopped between prepare and point; a delivery takes the sink, and rolls back; then it makes its commit."""
    monkeypatch.setattr(database, "STILL_SECONDS", 0.5)
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = stream.coming()
    zombie = process(1, changes, "first", "sink.prepared=stop")
    zombies.append(zombie)
    stopped(zombie)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows and server.prepared() == [] and not landed(stream)
    zombie.send_signal(signal.SIGCONT)
    told = zombie.communicate(timeout=60)
    assert zombie.returncode == 0 and landed(stream), told
    stream.settle(changes)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows
    stream.land()
    assert server.held() == stream.rows and server.prepared() == []


@EACH_SERVER
@pytest.mark.parametrize("point", [*_EARLY, "sink.prepared", pytest.param("sink.landed", marks=pytest.mark.slow)])
def test_an_attempt_that_another_one_has_overtaken_changes_nothing_when_it_wakes_up(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen], point: str
) -> None:
    monkeypatch.setattr(database, "STILL_SECONDS", 0.5)
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = stream.coming()
    zombie = process(1, changes, "first", f"{point}=stop")
    zombies.append(zombie)
    stopped(zombie)
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    stream.land()
    assert server.held() == stream.rows
    zombie.send_signal(signal.SIGCONT)
    zombie.communicate(timeout=60)
    assert server.held() == stream.rows and server.prepared() == []
    stream.land()
    assert server.held() == stream.rows


@EACH_SERVER
def test_a_sink_that_is_away_stops_the_batch_before_it_lands_and_a_pause_lets_it_go_on(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    server.kill()
    try:
        changes = stream.coming()
        with pytest.raises(RetryableError, match="a sink does not answer") as failure:
            attempt(stream.coordinator, 1, changes, "first")
        assert "`lakemark sinks pause p app --reason ...` lets the pipeline go on" in failure.value.action
        assert not landed(stream)
        assert command("sinks", "pause", "p", "app", "--reason", "away").returncode == 0
        stream.land(changes)
    finally:
        server.start()
    assert command("sinks", "resume", "p", "app", "--reason", "back").returncode == 0
    stream.land()
    assert server.held() == stream.rows


@EACH_SERVER
def test_a_server_that_dies_with_a_prepared_transaction_keeps_it(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = stream.killed_at("sink.landed")
    server.kill()
    server.start()
    assert len(server.prepared()) == 1
    stream.settle(changes)
    stream.land()
    assert server.held() == stream.rows and server.prepared() == []


@EACH_SERVER
def test_a_server_that_freezes_before_the_end_holds_nobody_up(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_END_SECONDS", 1.0)
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    made = two_phase.TwoPhase._made

    def freezing(self: two_phase.TwoPhase, content: bytes, succeeds: str | None, prepared: Prepared) -> bool:
        server.freeze()
        return made(self, content, succeeds, prepared)

    monkeypatch.setattr(two_phase.TwoPhase, "_made", freezing)
    try:
        stream.land()
    finally:
        server.freeze(False)
    assert "does not answer" in str(stream.coordinator.ledger.recent().sinks["app"].problem)
    assert command("sinks", "deliver", "p").returncode == 0
    assert server.held() == stream.rows and server.prepared() == []


def test_a_commit_that_another_writer_overtakes_is_rolled_back_and_decided_again(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    made = two_phase.TwoPhase._made

    def overtaken(self: two_phase.TwoPhase, content: bytes, succeeds: str | None, prepared: Prepared) -> bool:
        monkeypatch.setattr(two_phase.TwoPhase, "_made", made)
        DeltaTable(stream.target).alter.set_table_properties({"user.note": "x"}, raise_if_not_exists=False)
        assert made(self, content, succeeds, prepared) is False
        return False

    monkeypatch.setattr(two_phase.TwoPhase, "_made", overtaken)
    stream.land()
    assert server.held() == stream.rows and server.prepared() == []
