"""`mode: upsert`: a table without transactions gets rows by key, then the progress, and a repeat changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from include.participants.explain import explanation
from tests.support.delivered import DELIVER, deliverer, stream_of
from tests.support.sink_servers import MariaServer
from tests.support.without_kafka import command


@pytest.mark.parametrize("point", ["sink.written", "sink.committed"])
def test_a_table_without_transactions_is_right_in_the_end(
    tmp_path: Path, maria: MariaServer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    maria.clear()
    stream = stream_of(tmp_path, maria, monkeypatch, mode="upsert", begin="start")
    maria.rows("ALTER TABLE orders ENGINE=MyISAM")
    for _ in range(2):
        stream.land()
    killed = command(*DELIVER, fault=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert maria.held() != [], "rows of a transaction that never ended are there"
    assert command(*DELIVER).returncode == 0
    assert maria.held() == stream.rows
    stream.land()
    assert deliverer(stream).deliver() is not None
    assert maria.held() == stream.rows
    assert explanation(stream.coordinator.pipeline)["guarantee"] == "at_least_once"
