"""Deliveries to real database servers: the sink has what the table has."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from include.control import sink_feed
from include.delivery.contract import Delivery
from include.delivery.database import DatabaseSink
from include.monitoring.staleness import look_at_sink
from include.monitoring.status import status
from include.protocol.errors import RetryableError, TerminalError
from tests.support.delivered import DELIVER, KINDS, deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stream import Change, Stream
from tests.support.without_kafka import command


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
    assert "would not keep as it is, name" in refused.stderr
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
    with pytest.raises(TerminalError, match=r"another sink delivers there.*that of another/app"):
        deliverer(stream).deliver()


def test_a_delivery_that_fails_is_in_the_ledger(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land()
    with monkeypatch.context() as patched:
        patched.setattr(sink_feed, "net_changes", _fails)
        with pytest.raises(RetryableError):
            deliverer(stream).deliver()
    shown = command("sinks", "status", "p")
    assert shown.returncode == 1 and "its last delivery failed" in shown.stdout and "1 commits" in shown.stdout
    [sink] = status(stream.coordinator.settings, stream.coordinator.pipeline)["sinks"]
    assert (sink["in_words"], sink["lag"]["batches"]) == ("its last delivery failed", 1)
    assert deliverer(stream).deliver() is not None
    assert "nothing waits for it" in command("sinks", "status", "p").stdout


def _fails(*_: object, **__: object) -> None:
    raise RetryableError(what="x", where="x", expected="x", found="x", action="x")


def test_a_sink_that_lacks_a_commit_for_too_long_is_stale_until_it_has_it(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, stale_after_minutes=1e-6)
    settings, pipeline = stream.coordinator.settings, stream.coordinator.pipeline
    assert look_at_sink(settings, pipeline, "app") is None
    stream.land()
    told = look_at_sink(settings, pipeline, "app")
    assert told is not None and "`lakemark sinks status p app`" in told
    command("sinks", "pause", "p", "app", "--reason", "a test")
    assert look_at_sink(settings, pipeline, "app") is None
    command("sinks", "resume", "p", "app", "--reason", "a test")
    assert deliverer(stream).deliver() is not None
    assert look_at_sink(settings, pipeline, "app") is None
