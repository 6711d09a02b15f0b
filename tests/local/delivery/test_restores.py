"""What a sink gets of a restore, of records that are read again, and of a backfill: what changes; nothing; or nothing
until a person decides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from include.protocol.batch import Batch
from include.protocol.errors import TerminalError
from tests.support import stream as streams
from tests.support.batches import batch
from tests.support.delivered import TWO_PHASE, deliverer, stream_of
from tests.support.sink_servers import PostgresServer
from tests.support.stream import Stream
from tests.support.without_kafka import command

BACK = ("checkpoint", "restore", "p", "0", "--reason", "a test")


@pytest.mark.parametrize("deliver", ["again", "skip", "refuse"])
def test_a_restore_says_what_sinks_get(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, deliver: str
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, begin="start")
    for _ in range(2):
        stream.land()
    assert deliverer(stream).deliver() is not None
    before = postgres.held()
    dry = command(*BACK, "--deliver", deliver, "--dry-run")
    assert "sink app: " in dry.stdout, dry.stderr
    done = command(*BACK, "--deliver", deliver)
    assert done.returncode == 0, done.stderr
    if deliver == "refuse":
        with pytest.raises(TerminalError, match="waits for your decision"):
            deliverer(stream).deliver()
        assert command("sinks", "skip", "p", "app", "--reason", "a test").returncode == 0
    assert deliverer(stream).deliver() is not None
    del stream.changes[1:]
    assert postgres.held() == (stream.rows if deliver == "again" else before)


def test_an_audit_knows_the_changes_that_a_restore_has_undone(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, what="changes")
    for _ in range(2):
        stream.land()
    assert deliverer(stream).deliver() is not None
    assert command(*BACK, "--deliver", "skip").returncode == 0
    assert stream.findings() == []
    assert deliverer(stream).deliver() is not None
    assert stream.findings() == []
    postgres.rows("INSERT INTO orders SELECT * FROM orders LIMIT 1")
    assert len(stream.findings()) == 1


def test_an_audit_knows_what_was_read_again_for_the_table_alone(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch brings the same changes again; sinks were not to get them."""
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, what="changes")
    changes = stream.coming()
    stream.land(changes)
    assert deliverer(stream).deliver() is not None
    monkeypatch.setattr(streams, "batch", partial(told, deliver="skip"))
    stream.land(changes)
    assert deliverer(stream).deliver() is not None
    assert postgres.rows("SELECT count(*) FROM orders") == [(len(changes),)]
    assert stream.findings() == []
    postgres.rows("DELETE FROM orders WHERE change_offset = 0")
    assert len(stream.findings()) == 1


def test_what_reads_again_says_what_sinks_would_get(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    changes = {**postgres.section("log"), "what": "changes"}
    stream = Stream.of(tmp_path, monkeypatch, app=postgres.section(), log=changes)
    stream.land()
    for deliver, of_rows, of_changes in (
        ("again", "sink app: gets the rows that change by it", "sink log: gets each change that is read again"),
        ("skip", "sink app: keeps what it has", "sink log: keeps what it has"),
    ):
        said = command(*BACK, "--dry-run", "--deliver", deliver).stdout
        assert of_rows in said and of_changes in said, said
    reset = command("reset", "p", "--reason", "a test", "--deliver", "refuse", "--dry-run")
    assert "sink app: its deliveries stop there until you decide" in reset.stdout, reset.stderr


def told(number: int, deliver: str) -> Batch:
    """A batch whose plan says what sinks get of it."""
    return replace(batch(number), deliver=deliver)


def before_one_that_is_told(
    folder: Path, postgres: PostgresServer, patch: pytest.MonkeyPatch, mode: str, deliver: str
) -> Stream:
    """A stream whose sink has its only batch, and whose later batches say what sinks get of them."""
    postgres.clear()
    stream = stream_of(folder, postgres, patch, **{**TWO_PHASE, "mode": mode})
    stream.land()
    assert deliverer(stream).deliver() is not None
    patch.setattr(streams, "batch", partial(told, deliver=deliver))
    return stream


@pytest.mark.parametrize("mode", ["follow", "two_phase"])
def test_a_batch_that_sinks_shall_not_get_moves_only_their_progress(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    stream = before_one_that_is_told(tmp_path, postgres, monkeypatch, mode=mode, deliver="skip")
    before = postgres.held()
    stream.land()
    done = deliverer(stream).deliver()
    assert done is not None and done.progress is not None
    assert postgres.held() == before != stream.rows
    assert done.progress.version == 2
    assert postgres.prepared() == []


@pytest.mark.parametrize("mode", ["follow", "two_phase"])
def test_a_batch_that_waits_for_a_decision_goes_nowhere_by_itself(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    stream = before_one_that_is_told(tmp_path, postgres, monkeypatch, mode=mode, deliver="refuse")
    before = postgres.held()
    if mode == "two_phase":  # which stops the pipeline, as its advice says: a pause lets it go on
        with pytest.raises(TerminalError, match=r"waits for your decision.*sinks pause p app"):
            stream.land()
        assert command("sinks", "pause", "p", "app", "--reason", "a test").returncode == 0
    stream.land()
    if mode == "two_phase":
        assert command("sinks", "resume", "p", "app", "--reason", "a test").returncode == 0
    with pytest.raises(TerminalError, match="waits for your decision"):
        deliverer(stream).deliver()
    assert command("sinks", "skip", "p", "app", "--reason", "a test").returncode == 0
    assert deliverer(stream).deliver() is not None
    assert postgres.held() == before != stream.rows


def test_a_savepoint_says_what_sinks_had(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch)
    stream.land()
    assert command("sinks", "deliver", "p").returncode == 0
    assert command("sinks", "pause", "p", "app", "--reason", "a test").returncode == 0
    made = command("savepoint", "create", "p", "--name", "s")
    assert made.returncode == 0, made.stderr
    assert "sink app: had version 1 of table " in command("savepoint", "show", "p", "s").stdout
    assert command("savepoint", "verify", "p", "s").returncode == 0
