"""Clones and cut overs, killed at every point, of real Delta files: no Spark. A stand-in says what Kafka holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from include.checkpoints.listing import checkpoints_in
from include.checkpoints.reading import Cut, query_at
from include.control.coordinator import Coordinator
from include.lake.merge.frozen import names_of
from include.lake.merge.snapshot import Snapshot
from include.pipeline_file import find_pipeline
from include.protocol.errors import TerminalError
from include.protocol.reading_began import reading_began
from include.savepoints.beginning import add_file
from include.savepoints.renaming import renamed, with_section
from include.settings import Settings
from tests.support.hand_made import known_to_commands
from tests.support.saved import saved
from tests.support.six_batches import BATCHES, IN_KAFKA, made, rows
from tests.support.tables_before import ask
from tests.support.without_kafka import LOST, command


@pytest.fixture
def p(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """A pipeline of six batches, with a savepoint `s` of the last one."""
    ask(monkeypatch, IN_KAFKA)
    found = known_to_commands(made(tmp_path), tmp_path, monkeypatch)
    saved(found, at=None)
    return found


def other(p: Coordinator, name: str) -> Coordinator:
    return Coordinator(p.settings, find_pipeline(name, p.settings.pipelines, p.settings.environment))


def clone_of(p: Coordinator, name: str = "q") -> Coordinator:
    done = command("savepoint", "clone", "p", "s", "--as", name)
    assert done.returncode == 0, done.stderr
    return other(p, name)


def test_a_clone_holds_the_same_under_its_own_names(p: Coordinator) -> None:
    q = clone_of(p)
    assert rows(q) == rows(p)
    assert q.tables.target != p.tables.target
    [started] = q.ledger.state().generations
    assert (started.origin, started.generation) == (f"clone of p/s 1/{BATCHES - 1}", 2)
    assert started.start_offsets == checkpoints_in(p.settings, p.pipeline)[-1].next_offsets
    [first] = checkpoints_in(q.settings, q.pipeline)
    assert (first.name, first.pipeline) == (f"1/{BATCHES - 1}", "q")
    found = query_at([Cut.at(q.settings, q.pipeline, None)], "SELECT count(*) AS n FROM target").to_pylist()
    assert found == [{"n": len([row for row in rows(q) if row[0] != 39])}]
    assert p.ledger.state().generation == 1


@pytest.mark.parametrize("fault", ["clone.table_made", "generation.part_fenced"])
def test_a_clone_that_was_killed_is_ended_by_the_same_command(p: Coordinator, fault: str) -> None:
    killed = command("savepoint", "clone", "p", "s", "--as", "q", fault=fault)
    if fault == "generation.part_fenced":  # its target has been made with the fence, and it has no other table
        assert killed.returncode == 0, killed.stderr
    else:
        assert killed.returncode == -9, killed.stderr
        refused = command("plan", "q")
        assert refused.returncode == 1, "it must not begin by itself"
    q = clone_of(p)
    assert rows(q) == rows(p)
    assert len(q.ledger.state().generations) == 1


def test_a_clone_that_has_gone_on_is_not_begun_again(p: Coordinator) -> None:
    q = clone_of(p)
    state = q.ledger.state()
    clone_of(p)
    assert q.ledger.state() == state


def test_a_clone_knows_where_the_reading_of_its_rows_began(p: Coordinator) -> None:
    began = reading_began(p.ledger.events(), p.ledger.state())
    assert began.offsets
    q = clone_of(p)
    assert reading_began(q.ledger.events(), q.ledger.state()) == began
    assert q.ledger.state().next_backfill > 100_000, "numbers of the other pipeline's backfills are in its rows"


def test_what_a_restore_under_way_needs_is_not_dropped(p: Coordinator) -> None:
    was = rows(p)
    saved(p, "copy", at="2", is_copy=True)
    back = ("savepoint", "restore", "p", "copy", "--reason", "a test")
    assert command(*back, fault="generation.part_fenced").returncode == -9
    refused = command("savepoint", "drop", "p", "copy")
    assert (refused.returncode, "lakemark savepoint restore p copy" in refused.stderr) == (1, True), refused.stderr
    assert command(*back).returncode == 0
    assert command("savepoint", "drop", "p", "copy").returncode == 0
    assert rows(p) != was


def test_the_new_files_tables_are_renamed_and_nothing_else() -> None:
    text = """# orders, and orders_eu
name: orders  # the name
source: {topics: [orders]}
target:
  table: lake://silver/orders
  history_table: "lake://silver/orders_history"
  routes: [{table: lake://silver/odd, when: id = 1}]
archive: lake://bronze/orders
transform: {references: {eu: lake://silver/orders_eu}}
"""
    found = renamed(text, "orders", "new")
    assert yaml.safe_load(found) == {
        "name": "new",
        "source": {"topics": ["orders"]},
        "target": {
            "table": "lake://silver/new",
            "history_table": "lake://silver/new_history",
            "routes": [{"table": "lake://silver/odd_new", "when": "id = 1"}],
        },
        "archive": "lake://bronze/new",
        "transform": {"references": {"eu": "lake://silver/orders_eu"}},
    }
    assert found.startswith("# orders, and orders_eu\nname: new  # the name\n")
    with pytest.raises(TerminalError, match="cannot be made"):
        renamed(text, "order", "new")


MINE = """name: p
sinks:
  app:
    postgresql: {table: orders}  # the application's

  # a note
  log: {kafka: {topic: t}}
target: {table: lake://p}
"""


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        ("name: q\nsinks: {x: {}}\ntarget: {}\n", "name: q\ntarget: {}\n" + MINE[8:-26]),
        ("name: q\ntarget: {}  # all\n", "name: q\ntarget: {}  # all\n" + MINE[8:-26]),
        ("name: q\nsinks:\n  x:\n    y: 1", "name: q\n" + MINE[8:-26]),
    ],
)
def test_a_section_is_exchanged_and_nothing_else(theirs: str, found: str) -> None:
    assert with_section(theirs, "sinks", of=MINE, where="q") == found
    none = yaml.safe_load(with_section(theirs, "sinks", of="name: p\n", where="q"))
    assert "sinks" not in none and none["name"] == "q"


def test_a_section_in_another_form_is_not_exchanged() -> None:
    with pytest.raises(TerminalError, match="cannot be exchanged"):
        with_section('{"name": "q", "sinks": {"x": {}}}', "sinks", of=MINE, where="q")


@pytest.mark.parametrize("name", ["../q", "Q", "q__landing", "", "q/r"])
def test_what_is_no_name_of_a_pipeline(p: Coordinator, tmp_path: Path, name: str) -> None:
    before = sorted(path for path in tmp_path.rglob("*.yaml"))
    refused = command("savepoint", "clone", "p", "s", "--as", name)
    assert (refused.returncode, "no pipeline can have this name" in refused.stderr) == (1, True), refused.stderr
    assert sorted(path for path in tmp_path.rglob("*.yaml")) == before


def test_what_is_refused_advises_what_is_there(p: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOST, "100")
    refused = command("savepoint", "clone", "p", "s", "--as", "q")
    assert refused.returncode == 1
    assert "lakemark savepoint list p" in refused.stderr, refused.stderr
    assert "run q" not in refused.stderr


def test_a_pipeline_of_two_halves_is_refused(p: Coordinator) -> None:
    file = p.settings.pipelines / "p.yaml"
    data = yaml.safe_load(file.read_text()) | {"merge_every": 3}
    file.write_text(yaml.safe_dump(data))
    for told in (["clone", "p", "s", "--as", "q"], ["rehearse", "p", "s"]):
        refused = command("savepoint", *told)
        assert (refused.returncode, "two halves" in refused.stderr) == (1, True), refused.stderr


@pytest.mark.parametrize("kind", ["copy", "pin"])
def test_a_clone_begins_in_another_lake(
    p: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    was, old = rows(p), str(p.settings.lake)
    saved(p, kind, is_copy=kind == "copy")
    monkeypatch.setenv("LAKEMARK_LAKE", str(tmp_path / "other"))
    monkeypatch.setenv("LAKEMARK_HOME", str(tmp_path / "other_home"))
    done = command("savepoint", "clone", "p", kind, "--as", "q", "--from-lake", old)
    assert done.returncode == 0, done.stderr
    there = Settings.from_environment()
    q = Coordinator(there, find_pipeline("q", there.pipelines, there.environment))
    assert str(q.tables.target).startswith(str(tmp_path / "other"))
    shutil.rmtree(old)
    assert rows(q) == was


@pytest.mark.parametrize("wrong", ["a file is gone", "the place is taken", "Kafka has lost records"])
def test_what_is_refused_leaves_no_file_and_the_dry_run_says_it(
    p: Coordinator, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    if wrong == "a file is gone":
        Path(str(p.tables.target), next(iter(names_of(Snapshot.of(p.tables.target))))).unlink()
    elif wrong == "the place is taken":
        shutil.copytree(str(p.tables.target), f"{p.tables.target}_q".replace("p_q", "q"))
    else:
        monkeypatch.setenv(LOST, "1000")
    before = sorted(path for path in Path(str(p.settings.lake)).rglob("*"))
    tries = [command("savepoint", "clone", "p", "s", "--as", "q", *told) for told in (["--dry-run"], [])]
    assert [done.returncode for done in tries] == [1, 1], tries
    assert tries[0].stderr == tries[1].stderr
    assert not (p.settings.pipelines / "q.yaml").exists()
    assert sorted(path for path in Path(str(p.settings.lake)).rglob("*")) == before


def test_a_file_that_somebody_writes_meanwhile_stays(p: Coordinator) -> None:
    path = add_file(p.settings, "q", "name: one")
    assert (add_file(p.settings, "q", "name: other"), path.read_text()) == (path, "name: one")
    assert [file.name for file in p.settings.pipelines.iterdir() if file.name.startswith(".")] == []
