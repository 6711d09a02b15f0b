"""What a sink gets of a restore: the difference; nothing; or nothing until a person decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.protocol.errors import TerminalError
from tests.support.delivered import deliverer, stream_of
from tests.support.sink_servers import PostgresServer
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
