"""Tables that somebody else has made, or changed.

What a delivery does not fit into is told, with advice that works word for word. Nothing is cut, left out or taken for
another row in silence.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from include.delivery import postgresql_server
from include.protocol.errors import TerminalError
from tests.support.advice import advised
from tests.support.delivered import DELIVER, deliverer, stream_of
from tests.support.sink_servers import PostgresServer, SinkServer
from tests.support.stream import Change, Stream
from tests.support.without_kafka import command

COLUMNS = {"postgresql": "seq bigint, name text", "mysql": "seq bigint, name longtext"}
TABLES = {  # by what is wrong with them
    "no key": "CREATE TABLE orders (id bigint, {columns})",
    "a column too few": "CREATE TABLE orders (id bigint PRIMARY KEY, seq bigint)",
}
OF_POSTGRESQL = {
    "a key that is deferrable": "CREATE TABLE orders (id bigint PRIMARY KEY DEFERRABLE, {columns})",
    "a key of some": "CREATE TABLE orders (id bigint, {columns}); CREATE UNIQUE INDEX ON orders (id) WHERE seq > 0",
    "a key of more columns": "CREATE TABLE orders (id bigint, {columns}, UNIQUE (id, seq))",
    "names in capitals": 'CREATE TABLE orders (id bigint PRIMARY KEY, "SEQ" bigint, name text)',
}


@pytest.mark.parametrize("kind", TABLES)
def test_create_mends_what_a_table_lacks(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mended(tmp_path, server, monkeypatch, TABLES[kind])


@pytest.mark.parametrize("kind", OF_POSTGRESQL)
def test_create_mends_what_a_table_of_postgresql_lacks(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    postgres.clear()
    mended(tmp_path, postgres, monkeypatch, OF_POSTGRESQL[kind])


def mended(folder: Path, server: SinkServer, patch: pytest.MonkeyPatch, statements: str) -> None:
    """The delivery is refused; what the error says makes it work."""
    stream = Stream.of(folder, patch, app=server.section())
    stream.land()
    for statement in statements.split(";"):
        server.rows(statement.format(columns=COLUMNS[server.system]))
    create = ("sinks", "create", "p", "app")
    [progress] = [part for part in command(*create).stdout.split(";") if "lakemark_progress` (" in quoted(part)]
    server.rows(progress)
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "`lakemark sinks create p app` prints" in refused.stderr, refused.stderr
    assert command(*create, "--run").returncode == 0
    done = command(*DELIVER)
    assert done.returncode == 0, done.stderr
    assert server.held() == stream.rows


def quoted(statement: str) -> str:
    return statement.replace('"', "`")


def test_a_table_that_was_dropped_begins_anew_once_it_was_made_again(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    for _ in range(2):
        stream.land()
        assert command(*DELIVER).returncode == 0
    server.rows("DROP TABLE orders")
    stream.land()
    lost = command(*DELIVER)
    assert lost.returncode == 1 and "`lakemark sinks create p app`" in lost.stderr
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert server.held() == stream.rows


def test_changes_without_a_progress_are_not_added_twice(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, what="changes")
    stream.land()
    assert command(*DELIVER).returncode == 0
    before = server.rows("SELECT count(*) FROM orders")
    server.rows("DROP TABLE lakemark_progress")
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    [gone] = stream.findings()
    assert gone.startswith("the sink says of itself that it has got nothing, and the ledger that it has version 1")
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "no progress of this sink in lakemark_progress" in refused.stderr
    assert server.rows("SELECT count(*) FROM orders") == before
    assert command("sinks", "skip", "p", "app", "--all", "--reason", "they are there").returncode == 0
    stream.land()
    assert command(*DELIVER).returncode == 0
    assert server.rows("SELECT count(*) FROM orders") == [(sum(map(len, stream.changes)),)]


def test_a_column_that_rounds_is_refused(tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has declared it: the table was made by hand."""
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land()
    alter = "ALTER COLUMN seq TYPE real" if server.system == "postgresql" else "MODIFY seq float"
    server.rows(f"ALTER TABLE orders {alter}")
    refused = command(*DELIVER)
    assert refused.returncode == 1
    assert re.search("the column seq of type (real|float), which cuts or rounds values in silence", refused.stderr)
    assert "change the column to a type that keeps every value of BIGINT, like bigint or text" in refused.stderr


def test_a_trigger_that_leaves_rows_out_is_noticed(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch, begin="start")
    for _ in range(2):
        stream.land()
    body = "BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END"
    postgres.rows(f"CREATE FUNCTION left_out() RETURNS trigger LANGUAGE plpgsql AS '{body}'")
    postgres.rows("CREATE TRIGGER left_out BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION left_out()")
    try:
        with pytest.raises(TerminalError, match=r"\d+ of \d+ rows were taken.*drop the table's triggers"):
            deliverer(stream).deliver()
        assert postgres.held() == []
    finally:
        postgres.rows("DROP FUNCTION left_out CASCADE")
    assert deliverer(stream).deliver() is not None
    assert postgres.held() == stream.rows


def test_a_key_that_the_server_takes_for_another_is_refused(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock: the tests' server is built without ICU, which has the collations that do so. What its catalog would say
    of one is put into the query."""
    postgres.clear()
    stream = stream_of(tmp_path, postgres, monkeypatch)
    stream.land()
    loose = postgresql_server._COLUMNS.replace("c.collisdeterministic IS NOT FALSE", "a.attname <> 'id'")
    with monkeypatch.context() as patched:
        patched.setattr(postgresql_server, "_COLUMNS", loose)
        with pytest.raises(TerminalError, match="the key id of a type or collation that takes some texts for others"):
            deliverer(stream).deliver()
    assert deliverer(stream).deliver() is not None


def test_a_flag_that_the_section_no_longer_asks_for_is_noticed(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, deletes="flag")
    stream.land([Change(1, 1, "a"), Change(2, 1, "b")])
    stream.land([Change(1, 2, None, deletes=True)])
    assert command(*DELIVER).returncode == 0
    file = tmp_path / "pipelines" / "p.yaml"
    told = yaml.safe_load(file.read_text())
    told["sinks"]["app"].pop("deletes")
    file.write_text(json.dumps(told))
    stream.land([Change(1, 3, "back")])
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "let the section say `deletes: flag`" in refused.stderr
    for statement in re.findall("`((?:DELETE|ALTER) [^`]*)`", refused.stderr):
        server.rows(statement)
    assert command(*DELIVER).returncode == 0
    assert server.held() == stream.rows


@pytest.mark.parametrize("names", [{"id": "id", "a%sb": "seq", "ra%te": "name"}, {"ID": "id", "o'r\\d`e\"r": "name"}])
def test_any_name_of_a_column_stands_in_statements(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch, names: dict[str, str]
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, columns=names, begin="start")
    for _ in range(2):
        stream.land()
    assert deliverer(stream).deliver() is not None
    assert deliverer(stream).deliver(as_it_is=True) is not None
    assert server.rows("SELECT count(*) FROM orders") == [(len(stream.rows),)]
    assert stream.findings() == []


def test_skip_leaves_out_the_commit_that_does_not_fit_and_not_one_that_brings_nothing(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch, begin="start", types={"name": "varchar(3)"})
    stream.land([Change(1, 1, "a")])
    stream.land([Change(2, 1, "b")])
    assert command(*DELIVER).returncode == 0
    DeltaTable(stream.target).alter.set_table_properties({"user.note": "x"}, raise_if_not_exists=False)
    DeltaTable(stream.target).optimize.compact()
    stream.land([Change(3, 1, "too long")])
    stream.land([Change(4, 1, "d")])
    assert command(*DELIVER).returncode == 1
    assert command("sinks", "skip", "p", "app", "--reason", "it does not fit").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert server.held() == [(1, 1, "a"), (2, 1, "b"), (4, 1, "d")]


def test_files_that_vacuum_has_removed_are_told_as_that(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows are read for the sink, another program reads them: its error says nothing of the cause."""
    stream = stream_of(tmp_path, server, monkeypatch, begin="start")
    stream.land([Change(n, 1, "a") for n in range(9)])
    stream.land([Change(n, 2, "b") for n in range(9)])
    DeltaTable(stream.target).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(TerminalError, match=r"VACUUM.*--snapshot"):
        deliverer(stream).deliver()


def test_a_progress_that_no_delivery_has_written(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land()
    assert command(*DELIVER).returncode == 0
    for which in (0, 1):
        server.rows("UPDATE lakemark_progress SET shape = 'x'")
        stream.land()
        refused = command(*DELIVER)
        assert refused.returncode == 1 and refused.stderr.startswith("ProgressUnreadable: ")
        problem = str(deliverer(stream).standing.problem)
        followed = command(*advised(problem, stream.coordinator.pipeline)[which])
        assert followed.returncode == 0, followed.stderr
        assert command(*DELIVER).returncode == 0
        assert server.held() == stream.rows or which == 1


def test_a_file_of_certificates_that_is_not_there_is_told(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, server, monkeypatch)
    stream.land()
    file = tmp_path / "pipelines" / "p.yaml"
    told = yaml.safe_load(file.read_text())
    told["sinks"]["app"][server.system]["ca_file"] = str(tmp_path / "nowhere.pem")
    file.write_text(json.dumps(told))
    for words in (DELIVER, ("sinks", "create", "p", "app")):
        refused = command(*words)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr
        assert "nowhere.pem" in refused.stderr and "a sink cannot be asked by TLS" in refused.stderr


def test_a_connection_whose_port_is_no_number_is_told_without_its_values(
    tmp_path: Path, server: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"host": "h", "port": "5432s3cret", "schema": "d", "login": "u", "password": "s3cret"}
    monkeypatch.setenv("AIRFLOW_CONN_APP", json.dumps({"conn_type": server.system, **connection}))
    Stream.of(tmp_path, monkeypatch, app={server.system: {"connection": "app", "table": "orders"}}).land()
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "a number as the port, or none" in refused.stderr
    assert "s3cret" not in refused.stderr
