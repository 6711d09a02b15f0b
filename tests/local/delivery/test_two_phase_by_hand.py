"""What people and other programs do to prepared transactions, to sections and to servers: it is found, and told with
advice that works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from include.protocol.errors import TerminalError
from tests.support.delivered import EACH_SERVER, TWO_PHASE, deliverer, stream_of
from tests.support.sink_servers import PostgresServer, SinkServer, free_port
from tests.support.stream import attempt
from tests.support.without_kafka import command


def test_what_is_pending_is_told_with_what_becomes_of_it(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    assert command("sinks", "pending", "p").stdout == "no transaction is pending\n"
    changes = stream.killed_at("sink.prepared")
    told = command("sinks", "pending", "p", "app").stdout
    assert "for version 1 of the target, which has not landed: `lakemark sinks deliver p` rolls it back" in told
    assert command("sinks", "deliver", "p").returncode == 0
    assert stream.killed_at("sink.landed", "second") == changes
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


@EACH_SERVER
def test_a_transaction_that_an_administrator_has_rolled_back_is_delivered_from_the_log(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = stream.killed_at("sink.landed")
    end_by_hand(server, "ROLLBACK")
    stream.settle(changes)
    assert deliverer(stream).deliver() is not None
    assert server.held() == stream.rows
    stream.land()
    assert server.held() == stream.rows


@EACH_SERVER
def test_a_transaction_that_an_administrator_has_committed_without_its_point_is_found(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heuristic outcome: the sink holds what the lake's log does not explain. Nobody adds to it in silence."""
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    changes = stream.killed_at("sink.prepared")
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


def test_what_another_user_has_prepared_is_told_with_the_statement_that_ends_it(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, **TWO_PHASE)
    changes = stream.killed_at("sink.landed")
    postgres.rows("CREATE ROLE another LOGIN")
    postgres.rows("GRANT ALL ON ALL TABLES IN SCHEMA public TO another")
    try:
        file = tmp_path / "pipelines" / "p.yaml"
        file.write_text(file.read_text().replace("username: lakemark", "username: another"))
        failed = command("sinks", "deliver", "p")
        advice = re.search("let one of them run `(COMMIT PREPARED '[^']*')`", failed.stdout + failed.stderr)
        assert failed.returncode == 1 and advice is not None, failed.stdout + failed.stderr
        postgres.rows(advice[1])
        assert command("sinks", "deliver", "p").returncode == 0
    finally:
        postgres.rows("DROP OWNED BY another")
        postgres.rows("DROP ROLE another")
    stream.settle(changes)
    assert postgres.held() == stream.rows and postgres.prepared() == []


@EACH_SERVER
def test_a_sink_that_is_taken_out_of_the_file_is_told_until_nothing_is_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    stream.killed_at("sink.prepared")
    file = tmp_path / "pipelines" / "p.yaml"
    whole = file.read_text()
    file.write_text(json.dumps({**yaml.safe_load(whole), "sinks": {}}))
    told = command("validate", "p").stdout
    advice = re.findall(r"`(?:lakemark )([^`]*)`", told)
    assert [words.split()[:2] for words in advice] == [["sinks", "pause"], ["sinks", "deliver"]], told
    file.write_text(whole)
    for words in advice:
        assert command(*words.replace("...", "gone").split()).returncode == 0
    file.write_text(json.dumps({**yaml.safe_load(whole), "sinks": {}}))
    assert "warning" not in command("validate", "p").stdout
    assert server.prepared() == []


@EACH_SERVER
def test_a_server_that_is_away_hides_no_other(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {server.system: {**server.address, "port": free_port(), "table": "orders"}, **TWO_PHASE}
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.land()
    stream.killed_at("sink.prepared")
    file = tmp_path / "pipelines" / "p.yaml"
    told = yaml.safe_load(file.read_text())
    file.write_text(json.dumps({**told, "sinks": {"away": away, **told["sinks"]}}))
    found = command("sinks", "pending", "p")
    assert found.returncode == 1
    assert "a sink does not answer (p, sink away" in found.stdout + found.stderr
    assert "app: " in found.stdout and "which has not landed" in found.stdout


@EACH_SERVER
def test_a_mode_that_changes_leaves_nothing_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = stream.killed_at("sink.landed")
    file = tmp_path / "pipelines" / "p.yaml"
    file.write_text(file.read_text().replace("mode: two_phase", "mode: follow"))
    assert command("sinks", "deliver", "p").returncode == 0
    stream.settle(changes)
    assert server.held() == stream.rows and server.prepared() == []


@EACH_SERVER
def test_a_section_that_names_its_table_otherwise_leaves_nothing_prepared(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    stream.killed_at("sink.landed")
    file = tmp_path / "pipelines" / "p.yaml"
    schema = "public" if server.system == "postgresql" else "lakemark"
    file.write_text(file.read_text().replace("table: orders", f"table: {schema}.orders"))
    command("sinks", "deliver", "p")
    assert server.prepared() == []


@EACH_SERVER
def test_a_batch_that_somebody_has_committed_by_hand_is_found_behind_foreign_commits(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, **TWO_PHASE)
    changes = stream.killed_at("sink.prepared")
    end_by_hand(server, "COMMIT")
    DeltaTable(stream.target).alter.set_table_properties({"user.note": "x"}, raise_if_not_exists=False)
    with pytest.raises(TerminalError, match="a sink has got what the table's log does not hold"):
        attempt(stream.coordinator, 0, changes, "second")
