"""Sinks that move with the lake (`mode: two_phase`): whoever is killed or stopped where, both have a batch or neither.

An attempt is the lane's, without Spark; its commit, the ledger and the servers are real.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from include.control import two_phase
from include.delivery import database
from include.lake.table_log import TableLog
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.two_phase import Prepared
from tests.support.delivered import deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stopped import stopped
from tests.support.stream import Stream, attempt, process, some
from tests.support.without_kafka import command

_EARLY = tuple(pytest.param(point, marks=pytest.mark.slow) for point in ("sink.taken", "sink.written"))
POINTS = (*_EARLY, "sink.prepared", "sink.landed")
TWO_PHASE = {"mode": "two_phase", "begin": "start"}


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
    assert len(server.prepared()) == (point in ("sink.prepared", "sink.landed"))
    assert server.held() == stream.rows, "nothing of it is seen yet"
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    assert server.held() == stream.rows
    assert server.prepared() == []


@pytest.mark.parametrize("point", ["sink.prepared", "sink.landed"])
def test_a_delivery_ends_what_a_killed_attempt_has_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    process(1, changes, "first", f"{point}=kill").communicate(timeout=60)
    assert deliverer(stream).deliver() is not None
    assert server.prepared() == []
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
    assert server.held() == stream.rows and server.prepared() == [] and not landed(stream)
    zombie.send_signal(signal.SIGCONT)
    told = zombie.communicate(timeout=60)
    assert zombie.returncode == 0 and landed(stream), told
    stream.settle(changes)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows
    stream.land()
    assert server.held() == stream.rows and server.prepared() == []


@pytest.mark.parametrize("point", [*_EARLY, "sink.prepared", pytest.param("sink.landed", marks=pytest.mark.slow)])
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
    assert server.held() == stream.rows and server.prepared() == []
    stream.land()
    assert server.held() == stream.rows


def test_what_is_pending_is_told_with_what_becomes_of_it(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    assert command("sinks", "pending", "p").stdout == "no transaction is pending\n"
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.prepared=kill").communicate(timeout=60)
    told = command("sinks", "pending", "p", "app").stdout
    assert "for version 1 of the target, which has not landed: `lakemark sinks deliver p` rolls it back" in told
    assert command("sinks", "deliver", "p").returncode == 0
    process(0, changes, "second", "sink.landed=kill").communicate(timeout=60)
    told = command("sinks", "pending", "p").stdout
    assert "which has landed: `lakemark sinks deliver p` commits it" in told
    assert command("sinks", "deliver", "p").returncode == 0
    assert command("sinks", "pending", "p").stdout == "no transaction is pending\n"
    stream.settle(changes)
    assert server.held() == stream.rows


def test_prepared_transactions_of_others_are_left_alone(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    server.rows("CREATE TABLE others (id int PRIMARY KEY)")
    name = "lakemark:0:1:x" if server.system == "postgresql" else "'lakemark/0','1:x',19275"
    connection: Any = server.connect()
    is_xa = server.system == "mysql"
    prepare = [f"XA END {name}", f"XA PREPARE {name}"] if is_xa else [f"PREPARE TRANSACTION '{name}'"]
    with connection, connection.cursor() as cursor:
        for statement in (f"XA START {name}" if is_xa else "BEGIN", "INSERT INTO others VALUES (1)", *prepare):
            cursor.execute(statement)
    try:
        stream.land()
        assert deliverer(stream).deliver() is not None
        assert server.held() == stream.rows
        assert len(server.prepared()) == 1
    finally:
        server.end_prepared(name if is_xa else f"'{name}'", "ROLLBACK")


def test_a_transaction_that_an_administrator_has_rolled_back_is_delivered_from_the_log(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.landed=kill").communicate(timeout=60)
    end_by_hand(server, "ROLLBACK")
    stream.settle(changes)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows
    stream.land()
    assert server.held() == stream.rows


def test_a_transaction_that_an_administrator_has_committed_without_its_point_is_found(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heuristic outcome: the sink holds what the lake's log does not explain. Nobody adds to it in silence."""
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = some(Random(1), 1)
    process(1, changes, "first", "sink.prepared=kill").communicate(timeout=60)
    end_by_hand(server, "COMMIT")
    for run in (deliverer(stream).deliver, lambda: attempt(stream.coordinator, 1, changes, "second")):
        with pytest.raises(TerminalError, match="a sink has got what the table's log does not hold"):
            run()
    assert command("sinks", "pause", "p", "app", "--reason", "a heuristic outcome").returncode == 0
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    assert command("sinks", "resume", "p", "app", "--reason", "looked at").returncode == 0
    with pytest.raises(TerminalError, match="by attempt first"):  # the batch has landed since, by another attempt
        deliverer(stream).deliver()
    assert command("sinks", "deliver", "p", "app", "--snapshot").returncode == 0
    assert server.held() == stream.rows


def end_by_hand(server: SinkServer, how: str) -> None:
    [name] = server.prepared()
    server.end_prepared(name, how)


def test_a_sink_that_is_away_stops_the_batch_before_it_lands_and_a_pause_lets_it_go_on(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    server.kill()
    try:
        changes = some(Random(1), 1)
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


def test_a_server_that_dies_with_a_prepared_transaction_keeps_it(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.landed=kill").communicate(timeout=60)
    server.kill()
    server.start()
    assert len(server.prepared()) == 1
    stream.settle(changes)
    stream.land()
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


def test_a_mode_that_changes_leaves_nothing_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.landed=kill").communicate(timeout=60)
    file = tmp_path / "pipelines" / "p.yaml"
    file.write_text(file.read_text().replace("mode: two_phase", "mode: follow"))
    assert command("sinks", "deliver", "p").returncode == 0
    stream.settle(changes)
    assert server.held() == stream.rows and server.prepared() == []


def test_a_section_that_names_its_table_otherwise_leaves_nothing_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.landed=kill").communicate(timeout=60)
    file = tmp_path / "pipelines" / "p.yaml"
    schema = "public" if server.system == "postgresql" else "lakemark"
    file.write_text(file.read_text().replace("table: orders", f"table: {schema}.orders"))
    command("sinks", "deliver", "p")
    assert server.prepared() == []


def test_a_batch_that_somebody_has_committed_by_hand_is_found_behind_foreign_commits(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = some(Random(0), 0)
    process(0, changes, "first", "sink.prepared=kill").communicate(timeout=60)
    end_by_hand(server, "COMMIT")
    DeltaTable(stream.target).alter.set_table_properties({"user.note": "x"}, raise_if_not_exists=False)
    with pytest.raises(TerminalError, match="a sink has got what the table's log does not hold"):
        attempt(stream.coordinator, 0, changes, "second")
