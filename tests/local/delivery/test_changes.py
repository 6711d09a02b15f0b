"""Sinks of changes (`what: changes`): each accepted change is added once, also those that a later one replaces."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from include.participants.outbox import outbox as outbox_of
from include.protocol.errors import TerminalError
from tests.support.delivered import DELIVER, EACH_SERVER, deliverer, stream_of
from tests.support.hand_made import clean_log
from tests.support.sink_servers import PostgresServer, SinkServer
from tests.support.stream import Change, Stream
from tests.support.without_kafka import command

_OTHERS = ("sink.taken", "sink.committed")
Added = list[tuple[int, int, str | None, bool]]


def several(number: int) -> list[Change]:
    """Two changes to each of some rows."""
    dice = Random(number)
    first = [Change(id_, 100 * number + id_, f"a{number}") for id_ in range(10)]
    second = [Change(id_, 100 * number + 50 + id_, f"b{number}", dice.random() < 0.3) for id_ in range(10)]
    return [*first, *second]


def expected(stream: Stream) -> Added:
    return [(c.id, c.seq, c.name, c.deletes) for batch in stream.changes for c in sorted(batch, key=lambda c: c.seq)]


def added(server: SinkServer) -> Added:
    rows = server.rows("SELECT id, seq, name, lakemark_deleted FROM orders ORDER BY seq")
    return [(id_, seq, name, bool(deleted)) for id_, seq, name, deleted in rows]


@pytest.mark.parametrize("mode", ["follow", "two_phase"])
def test_each_change_is_added_once(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, what="changes", mode=mode)
    for number in range(3):
        stream.land(several(number))
        if mode == "follow" and number:
            assert deliverer(stream).deliver() is not None
    assert added(server) == expected(stream)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM orders WHERE id = 7 AND seq = 107", "the sink lacks 1 changes up to version 3, such as (7, 107"),
        ("INSERT INTO orders SELECT * FROM orders WHERE seq = 107", "no landed batch has brought, 1 changes"),
        ("UPDATE orders SET name = 'x' WHERE seq = 107", "the sink lacks 1 changes"),
        ("DELETE FROM orders WHERE seq < 100", None),  # of a whole batch: a person may have left it out
    ],
)
def test_what_somebody_else_has_written_is_found(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, statement: str, told: str | None
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, what="changes")
    for number in range(3):
        stream.land(several(number))
    assert deliverer(stream).deliver() is not None
    assert stream.findings() == []
    server.rows(statement)
    found = stream.findings()
    assert (told is None and found == []) or (told is not None and told in found[0]), found


@EACH_SERVER
@pytest.mark.parametrize("point", ["sink.written", *(pytest.param(p, marks=pytest.mark.slow) for p in _OTHERS)])
def test_a_delivery_that_is_killed_adds_nothing_twice(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, what="changes")
    for number in range(2):
        stream.land(several(number))
    killed = command(*DELIVER, fault=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert command(*DELIVER).returncode == 0
    assert added(server) == expected(stream)


def test_changes_that_log_clean_up_has_removed_are_told_and_not_left_out(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, what="changes")
    stream.land(several(0))
    assert deliverer(stream).deliver() is not None
    stream.land(several(1))
    [outbox] = outbox_of(stream.coordinator.pipeline)
    stream.land(several(2))
    clean_log(Path(str(outbox.uri(stream.coordinator.settings))))
    with pytest.raises(TerminalError, match="a commit that a sink still has to get is gone"):
        deliverer(stream).deliver()
    assert command("sinks", "skip", "p", "app", "--reason", "a test").returncode == 0
    assert command("sinks", "status", "p").returncode in (0, 1)


def test_files_get_each_change_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    stream = Stream.of(tmp_path, monkeypatch, app={"files": {"path": str(out)}, "what": "changes"})
    stream.land(several(0))
    assert deliverer(stream).deliver() is not None
    [file] = (out / "parts").iterdir()
    rows = pq.read_table(file).to_pylist()
    assert [(row["id"], row["seq"], row["name"], row["lakemark_deleted"]) for row in rows] == expected(stream)
    assert {row["lakemark_op"] for row in rows} == {"append"}


def test_changes_are_in_order_whatever_columns_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of the sink has the name of the one that orders changes, or of what the database numbers rows by."""
    columns = {"id": "id", "seq": "name", "name": "seq", "rowid": "name"}
    out = tmp_path / "out"
    section = {"files": {"path": str(out)}, "what": "changes", "columns": columns}
    stream = Stream.of(tmp_path, monkeypatch, app=section)
    stream.land([Change(3, 1, "z"), Change(1, 3, "a"), Change(2, 2, "m")])
    assert deliverer(stream).deliver() is not None
    [file] = (out / "parts").iterdir()
    assert [row["name"] for row in pq.read_table(file).to_pylist()] == [1, 2, 3]


def test_a_snapshot_of_all_sinks_delivers_the_changes_that_wait(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, what="changes")
    stream.land(several(0))
    refused = command(*DELIVER, "--snapshot")
    assert refused.returncode == 1 and "`lakemark sinks deliver p app` delivers the changes that wait" in refused.stderr
    assert deliverer(stream).standing.problem is None
    assert command("sinks", "deliver", "p", "--snapshot").returncode == 0
    assert added(postgres) == expected(stream)
