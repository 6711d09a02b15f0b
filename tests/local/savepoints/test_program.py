"""Whether a pipeline's files say the same: as another pipeline's, and as when a savepoint was made. No Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from include.control.coordinator import Coordinator
from include.pipeline_file import find_pipeline
from include.protocol.errors import TerminalError
from include.savepoints.program import verify_program
from include.savepoints.same_program import counterparts, differing
from tests.local.savepoints.test_clones import other, p, rows, saved
from tests.support.without_kafka import LOST, command

__all__ = ["p"]
SUITE = '{"name": "s", "expectations": []}'


def changed(p: Coordinator, name: str = "p", **sections: object) -> None:
    """Sections of a file are other ones, merged into those that are there."""
    file = p.settings.pipelines / f"{name}.yaml"
    data = yaml.safe_load(file.read_text())
    for section, fields in sections.items():
        data[section] = {**data.get(section, {}), **fields} if isinstance(fields, dict) else fields
    file.write_text(yaml.safe_dump(data))


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"source": {"filter": "id > 3"}}, "source.filter"),
        ({"change": {"delete_when": "id = 1"}}, "change.delete_when"),
        ({"quality": {"table": {"suite": "s"}}}, "quality"),
        ({"source": {"schema": "id BIGINT, seq BIGINT, more INT"}}, ""),
        ({"source": {"limits": {"records_per_batch_max": 7}}}, ""),
        ({"schedule": "@hourly", "description": "another"}, ""),
    ],
)
def test_who_goes_back_is_told_that_the_program_is_another_one(
    p: Coordinator, sections: dict[str, object], said: str
) -> None:
    saved(p, "old", at="2")
    p.settings.expectations.mkdir(parents=True, exist_ok=True)
    (p.settings.expectations / "s.json").write_text(SUITE)
    changed(p, **sections)
    was = rows(p)
    back = ("savepoint", "restore", "p", "old", "--reason", "a test")
    tries = [command(*back, *told) for told in (["--dry-run"], [])]
    if not said:
        assert [done.returncode for done in tries] == [0, 0], tries
        return
    assert [done.returncode for done in tries] == [1, 1], tries
    for word in (f"other: {said}", "--keep-file", "--write-file"):
        assert word in tries[1].stderr, tries[1].stderr
    assert rows(p) == was
    done = command(*back, "--keep-file")
    assert done.returncode == 0, done.stderr
    assert rows(p) != was


def test_the_file_goes_back_with_the_rows(p: Coordinator) -> None:
    file = p.settings.pipelines / "p.yaml"
    text = file.read_text()
    saved(p, "old", at="2")
    changed(p, source={"filter": "id > 3"})
    new = file.read_text()
    back = ("savepoint", "restore", "p", "old", "--reason", "a test", "--write-file")
    assert (command(*back, "--dry-run").returncode, file.read_text()) == (0, new)
    assert command(*back).returncode == 0
    assert file.read_text() == text
    assert p.ledger.state().generations[-1].origin == "savepoint old 1/2"


def test_what_cannot_go_back_leaves_the_file(p: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(p, "old", at="2")
    changed(p, source={"filter": "id > 3"})
    new = (p.settings.pipelines / "p.yaml").read_text()
    monkeypatch.setenv(LOST, "1000")
    refused = command("savepoint", "restore", "p", "old", "--reason", "a test", "--write-file")
    assert (refused.returncode, "Kafka no longer holds" in refused.stderr) == (1, True), refused.stderr
    assert (p.settings.pipelines / "p.yaml").read_text() == new


def test_a_text_that_is_another_one_is_told(p: Coordinator) -> None:
    p.settings.expectations.mkdir(parents=True, exist_ok=True)
    suite = p.settings.expectations / "s.json"
    suite.write_text(SUITE)
    changed(p, quality={"table": {"suite": "s"}})
    now = other(p, "p").pipeline
    saved(Coordinator(p.settings, now), "with_suite")
    verify_program(p.settings, now, "with_suite")
    suite.write_text(SUITE.replace("[]", "[ ]"))
    with pytest.raises(TerminalError, match="another thing") as raised:
        verify_program(p.settings, now, "with_suite")
    assert raised.value.found == "other: expectations/s.json"


def test_two_pipelines_with_other_checks_of_the_table_are_not_the_same(p: Coordinator) -> None:
    done = command("savepoint", "clone", "p", "s", "--as", "q")
    assert done.returncode == 0, done.stderr
    p.settings.expectations.mkdir(parents=True, exist_ok=True)
    (p.settings.expectations / "s.json").write_text(SUITE)
    assert differing(p.settings, other(p, "p").pipeline, other(p, "q").pipeline) == []
    changed(p, "q", quality={"table": {"suite": "s"}})
    assert "quality.table" in " ".join(differing(p.settings, other(p, "p").pipeline, other(p, "q").pipeline))


def test_two_routes_that_take_the_same_are_two(p: Coordinator) -> None:
    for name in ("one", "two"):
        text = (p.settings.pipelines / "p.yaml").read_text().replace("name: p", f"name: {name}")
        (p.settings.pipelines / f"{name}.yaml").write_text(re.sub(r"silver/p\b", f"silver/{name}", text))
        routes = [{"table": f"lake://silver/{name}_{n}", "when": "id % 2 = 1"} for n in range(2)]
        changed(p, name, target={"routes": routes, "history_table": None}, archive=None)
    one, two = (find_pipeline(name, Path(p.settings.pipelines), p.settings.environment) for name in ("one", "two"))
    pairs = [(mine.name, theirs.name) for mine, theirs in counterparts(one, two) if mine.route is not None]
    assert len({theirs for _, theirs in pairs}) == 2
