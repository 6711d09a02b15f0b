"""Deliveries to real database servers: the sink has what the table has, whatever happens to a delivery."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pymysql
import pytest
from deltalake import DeltaTable

from include.control import deliveries
from include.control.deliveries import Deliverer
from include.delivery import database, mysql, postgresql
from include.delivery.contract import Delivery
from include.delivery.creating import create, needed
from include.delivery.database import DatabaseSink
from include.protocol.errors import RetryableError, TerminalError
from tests.support.sink_servers import SinkServer
from tests.support.stopped import stopped
from tests.support.stream import Change, Stream
from tests.support.without_kafka import COMMAND, command

DELIVER = ("sinks", "deliver", "p", "app")
POINTS = ("sink.taken", "sink.written", "sink.committed")
MODULES = {"postgresql": postgresql, "mysql": mysql}
KINDS = {"postgresql": postgresql.PostgresqlSink, "mysql": mysql.MysqlSink}
FIXTURES = {"postgresql": "postgres", "mysql": "maria"}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> SinkServer:
    """A server without tables."""
    found: SinkServer = request.getfixturevalue(FIXTURES[request.param])
    for table in found.tables():
        found.rows(f"DROP TABLE {table}")
    return found


def stream_of(folder: Path, server: SinkServer, patch: pytest.MonkeyPatch, **more: object) -> Stream:
    """A pipeline whose sink has all that it needs."""
    found = Stream.of(folder, patch, app=server.section(**more))
    pipeline = found.coordinator.pipeline
    create(pipeline, "app", needed(pipeline, "app"))
    return found


def deliverer(stream: Stream) -> Deliverer:
    return Deliverer(stream.coordinator.settings, stream.coordinator.pipeline, "app")


@pytest.mark.parametrize("begin", ["start", "snapshot"])
def test_a_sink_has_what_the_table_has_after_every_batch(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    stream, dice = stream_of(tmp_path, server, monkeypatch, begin=begin), Random(7)
    for _ in range(3):
        stream.land(dice=dice)
    for _ in range(6):
        done = deliverer(stream).deliver()
        assert done is not None and done.progress is not None
        assert server.held() == stream.rows
        assert (done.progress.version, done.progress.batch_id) == (len(stream.changes), len(stream.changes) - 1)
        stream.land(dice=dice)


def test_each_commit_is_one_transaction_and_readers_see_whole_ones(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    right = {}
    for number in range(5):
        stream.land()
        right[number + 1] = stream.rows
    seen = {}
    kind = KINDS[server.system]
    deliver = kind.deliver

    def watched(self: DatabaseSink, delivery: Delivery) -> int:
        rows = deliver(self, delivery)
        [(version,)] = server.rows("SELECT version FROM lakemark_progress")
        seen[version] = server.held()
        return rows

    monkeypatch.setattr(kind, "deliver", watched)
    done = deliverer(stream).deliver()
    assert done is not None and done.deliveries == 5
    assert seen == right


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


@pytest.mark.parametrize("point", POINTS)
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


def test_deletes_may_leave_a_flag(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start", deletes="flag")
    stream.land([Change(1, 1, "a"), Change(2, 1, "b")])
    stream.land([Change(1, 2, None, deletes=True)])
    deliverer(stream).deliver()
    flags = "SELECT id, lakemark_deleted FROM orders ORDER BY id"
    assert server.rows(flags) == [(1, True), (2, False)]
    stream.land([Change(1, 3, "back")])
    deliverer(stream).deliver()
    assert server.rows(flags) == [(1, False), (2, False)]
    assert server.held() == stream.rows


def test_foreign_commits_and_maintenance_are_followed_too(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes the target's rows: a RESTORE, a delete by hand that copies files, an OPTIMIZE."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    for _ in range(3):
        stream.land()
    deliverer(stream).deliver()
    before = server.held()
    stream.land([Change(1, 10_000, "later")])
    deliverer(stream).deliver()
    assert server.held() == stream.rows != before
    DeltaTable(stream.target).restore(3)
    deliverer(stream).deliver()
    assert server.held() == before


def test_a_table_in_the_targets_place_asks_a_person(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land([Change(1, 1, "a"), Change(2, 1, "b")])
    deliverer(stream).deliver()
    server.rows("UPDATE lakemark_progress SET table_id = 'another'")
    with pytest.raises(TerminalError, match="the table was made anew"):
        deliverer(stream).deliver()
    assert deliverer(stream).standing.problem is not None
    assert command(*DELIVER, "--snapshot").returncode == 0
    assert server.held() == stream.rows
    assert deliverer(stream).standing.problem is None


def test_a_snapshot_takes_away_what_the_table_does_not_have(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land()
    server.rows("INSERT INTO orders (id, seq, name) VALUES (99999, 1, 'a stranger')")
    deliverer(stream).deliver(as_it_is=True)
    assert server.held() == stream.rows


def test_a_paused_sink_gets_nothing_until_it_is_resumed(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    assert command("sinks", "pause", "p", "app", "--reason", "a migration").returncode == 0
    paused = command(*DELIVER)
    assert paused.returncode == 0 and "paused: a migration" in paused.stdout
    assert server.held() == []
    assert command("sinks", "resume", "p", "app", "--reason", "it is over").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert server.held() == stream.rows


def test_a_delivery_that_the_sink_refuses_is_told_and_can_be_left_out(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start", types={"name": "varchar(3)"})
    stream.land([Change(1, 1, "abc")])
    stream.land([Change(2, 1, "secret value")])
    stream.land([Change(3, 1, "d")])
    refused = command(*DELIVER)
    assert refused.returncode == 1
    assert ("StringDataRightTruncation" if server.system == "postgresql" else "do not fit") in refused.stderr
    assert deliverer(stream).standing.problem is not None
    assert "secret" not in str(deliverer(stream).standing.problem)
    assert command("sinks", "skip", "p", "app", "--reason", "a name that is too long").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert server.held() == [(1, 1, "abc"), (3, 1, "d")]


def test_advice_for_what_a_sink_lacks_works_word_for_word(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream.of(tmp_path, monkeypatch, app=server.section())
    stream.land()
    lacking = command(*DELIVER)
    assert lacking.returncode == 1 and "`lakemark sinks create p app`" in lacking.stderr
    printed = command("sinks", "create", "p", "app")
    assert printed.stdout.count("CREATE TABLE") == 2 and printed.stdout.count("GRANT") >= 2
    assert server.tables() == []
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert server.held() == stream.rows


def test_a_table_has_one_writer(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land()
    names = "pipeline, sink, into_table, table_id, version, generation, batch_id"
    server.rows(f"INSERT INTO lakemark_progress ({names}) VALUES ('another', 'app', 'orders', 't', 0, 0, 0)")
    with pytest.raises(TerminalError, match="refuses a delivery"):
        deliverer(stream).deliver()


def test_a_delivery_that_fails_is_in_the_ledger(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    with monkeypatch.context() as patched:
        patched.setattr(deliveries, "net_changes", _fails)
        with pytest.raises(RetryableError):
            deliverer(stream).deliver()
    shown = command("sinks", "status", "p")
    assert shown.returncode == 1 and "its last delivery failed" in shown.stdout and "1 commits" in shown.stdout
    assert deliverer(stream).deliver() is not None
    assert "it has everything" in command("sinks", "status", "p").stdout


def _fails(*_: object) -> None:
    raise RetryableError(what="x", where="x", expected="x", found="x", action="x")
