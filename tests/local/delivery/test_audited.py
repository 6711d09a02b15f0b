"""`lakemark audit --sinks` compares what a sink holds with the target, by code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.delivered import deliverer, stream_of
from tests.support.sink_servers import SinkServer
from tests.support.stream import Change

ROWS = [Change(n, 1, f"n{n}") for n in range(50)]


def test_a_sink_that_has_everything_or_is_behind_has_no_findings(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    assert stream.findings() == []
    stream.land(ROWS)
    deliverer(stream).deliver()
    assert stream.findings() == []
    stream.land([Change(1, 2, None, deletes=True)])
    assert stream.findings() == []


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM orders WHERE id = 7", "the sink lacks 1 rows of version 1, such as (7,)"),
        (
            "UPDATE orders SET name = 'x' WHERE id < 2",
            "the sink has with other values 2 rows of version 1, such as (0,)",
        ),
        ("INSERT INTO orders (id, seq, name) VALUES (99, 1, 'x')", "the sink has, and the target has not, 1 rows"),
        ("UPDATE lakemark_progress SET version = 9", "the sink has version 9 of table "),
        (
            "UPDATE lakemark_progress SET table_id = 'x'",
            "the sink has version 1 of table x, and the target is version 1 ",
        ),
        (
            "UPDATE lakemark_progress SET batch_id = 7",
            "the sink says that batch (1, 7) is the newest in version 1, and the log (1, 0)",
        ),
        (
            "DELETE FROM lakemark_progress",
            "the sink says of itself that it has got nothing, and the ledger that it has version 1",
        ),
    ],
)
def test_what_somebody_else_has_written_is_found(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, statement: str, told: str
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land(ROWS)
    deliverer(stream).deliver()
    server.rows(statement)
    [finding] = stream.findings()
    assert finding.startswith(told)


def test_a_sink_that_does_not_answer_is_a_finding(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land(ROWS)
    deliverer(stream).deliver()
    server.rows("DROP TABLE orders")
    [finding] = stream.findings()
    assert finding.startswith("a sink cannot be read")
