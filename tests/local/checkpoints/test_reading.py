"""All tables of a pipeline are read together, as one batch has left them. Real Delta files, no Spark."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.checkpoints.reading import Cut, query_at
from include.checkpoints.retention import freeze_due
from include.cli.command import main
from include.control.coordinator import Coordinator
from include.protocol.errors import TerminalError
from tests.local.checkpoints.test_kept import BATCHES, cut_the_log, keeping, made
from tests.support.hand_made import known_to_commands

SUM = "SELECT count(*) AS n, max(seq) AS newest FROM target"


def cut(coordinator: Coordinator, when: str | None = None) -> Cut:
    return Cut.at(coordinator.settings, coordinator.pipeline, when)


def test_a_cut_is_named_by_batch_or_by_time(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    assert cut(coordinator).checkpoint.name == f"1/{BATCHES - 1}"
    assert cut(coordinator, "batch:2").checkpoint.name == "1/2"
    at = cut(coordinator, "batch:1/3").checkpoint.committed_at
    assert at is not None
    assert cut(coordinator, at).checkpoint.name == "1/3"
    assert cut(coordinator, at.replace("+00:00", "Z")).checkpoint.name == "1/3"
    assert cut(coordinator, "2999-01-01").checkpoint.name == f"1/{BATCHES - 1}"
    assert cut(coordinator, "batch:2").versions == {"target": 3}
    with pytest.raises(TerminalError, match="nothing had landed by then"):
        cut(coordinator, "2001-01-01T00:00")
    with pytest.raises(TerminalError, match="like 2026-11-20T10:00Z"):
        cut(coordinator, "yesterday")


def test_every_batch_is_read_as_it_was(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    for number in range(BATCHES):
        [row] = query_at([cut(coordinator, f"batch:{number}")], SUM).to_pylist()
        assert row == {"n": 39, "newest": number}
    joined = "SELECT count(*) AS n FROM p.target AS a JOIN target AS b USING (id)"
    assert query_at([cut(coordinator, "batch:1")], joined).to_pylist() == [{"n": 39}]


def test_the_query_may_come_after_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """As the docs write it; argparse by itself takes no more names after an option."""
    known_to_commands(made(tmp_path), tmp_path, monkeypatch)
    for words in (["p", "--at", "batch:2", SUM], ["p", SUM, "--at", "batch:2"], ["--at", "batch:2", "p", SUM]):
        assert main(["query", *words]) == 0
        assert json.loads(capsys.readouterr().out) == {"n": 39, "newest": 2}
    with pytest.raises(SystemExit):
        main(["query", "p", "--at", "batch:2", SUM, "--nonsense"])
    with pytest.raises(SystemExit):
        main(["plan", "p", "q"])


def test_what_people_have_changed_by_hand_is_what_the_tables_are_now(tmp_path: Path) -> None:
    """Else a savepoint or a promotion would bring back what a person has erased."""
    coordinator = made(tmp_path)
    before = cut(coordinator)
    table = DeltaTable(str(coordinator.tables.target))
    table.delete("id = 3")
    table.optimize.compact()
    now = cut(coordinator)
    assert now.checkpoint.name == before.checkpoint.name
    assert now.versions == {"target": before.versions["target"] + 1}, "as people left it, whoever tidied up then"
    assert query_at([now], "SELECT id FROM target WHERE id = 3").to_pylist() == []
    assert query_at([cut(coordinator, "batch:5")], "SELECT id FROM target WHERE id = 3").to_pylist() == [{"id": 3}]


def test_a_frozen_version_is_read_where_its_log_is_gone(tmp_path: Path) -> None:
    coordinator = made(tmp_path, age=timedelta(days=16))
    freeze_due(coordinator.settings, keeping(coordinator, retain=3))
    cut_the_log(coordinator)
    [row] = query_at([cut(coordinator, "batch:3")], SUM).to_pylist()
    assert row == {"n": 39, "newest": 3}
    with pytest.raises(TerminalError, match="cannot be read as it was"):
        query_at([cut(coordinator, "batch:2")], SUM)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM history", "over the tables target, p.target"),
        ("SELECT nothing FROM target", "nothing"),
        ("DROP VIEW target", "a query that reads"),
        ("COPY target TO '/tmp/x.csv'", "a query that reads"),
        ("  ", "a query that reads"),
    ],
)
def test_what_cannot_be_answered_says_why(tmp_path: Path, sql: str, found: str) -> None:
    with pytest.raises(TerminalError) as refused:
        query_at([cut(made(tmp_path))], sql)
    assert found in str(refused.value)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    known_to_commands(made(tmp_path), tmp_path, monkeypatch)
    assert main(["query", "p", SUM, "--at", "batch:4", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == [{"n": 39, "newest": 4}]
    assert "p, generation 1 batch 4" in shown.err
    assert "target version 5" in shown.err
    assert main(["query", "p", "p", "SELECT count(*) AS n FROM p.target", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 39}]
    assert main(["query", "SELECT 1"]) == 1
    assert "a query needs a pipeline" in capsys.readouterr().err
    assert main(["checkpoint", "list", "p", "--last", "2", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["1/5", "1/4"]
    assert main(["checkpoint", "list", "p", "--last", "2"]) == 0
    assert "4 earlier ones" in capsys.readouterr().out
    assert main(["checkpoint", "show", "p", "3"]) == 0
    assert "up to offset 40" in capsys.readouterr().out
    assert main(["checkpoint", "show", "p", "77"]) == 1
    assert "1/0 to 1/5" in capsys.readouterr().err
