"""Deliveries to a folder, and to a class of a user's own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
import yaml

from include.delivery import pace
from include.protocol.errors import ProgressUnreadable, TerminalError
from include.settings import PROJECT_ROOT
from tests.support.delivered import DELIVER, POINTS, deliverer
from tests.support.stopped import stopped
from tests.support.stream import Change, Stream
from tests.support.without_kafka import COMMAND, command

Rows = list[tuple[int, int, str | None]]


def files_of(folder: Path, patch: pytest.MonkeyPatch, format_: str = "parquet", **more: Any) -> tuple[Stream, Path]:
    out = folder / "out"
    return Stream.of(folder, patch, app={"files": {"path": str(out), "format": format_}, "begin": "start", **more}), out


def rows_in(out: Path) -> Rows:
    """What a reader has that takes the files of the manifests, in order."""
    found: dict[int, dict[str, Any]] = {}
    for number, manifest in enumerate(sorted((out / "manifests").iterdir())):
        told = json.loads(manifest.read_text())
        assert told["number"] == number
        found = {} if told["is_snapshot"] else found
        for part in told["files"]:
            rows = read(out / part["path"])
            assert len(rows) == part["rows"]
            for row in rows:
                if row["lakemark_op"] == "delete":
                    found.pop(row["id"], None)
                else:
                    found[row["id"]] = row
    return sorted((row["id"], row["seq"], row["name"]) for row in found.values())


def read(part: Path) -> list[dict[str, Any]]:
    match part.suffix:
        case ".json":
            return [json.loads(line) for line in part.read_text().splitlines()]
        case ".csv":
            return csv.read_csv(part).to_pylist()
    return pq.read_table(part).to_pylist()


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_files_hold_what_the_table_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    stream, out = files_of(tmp_path, monkeypatch, format_)
    dice = Random(1)
    for _ in range(4):
        stream.land(dice=dice)
        assert deliverer(stream).deliver() is not None
        assert rows_in(out) == stream.rows
    assert deliverer(stream).deliver(as_it_is=True) is not None
    assert rows_in(out) == stream.rows


def test_a_long_delivery_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_SECONDS", 0.0)
    monkeypatch.setattr(pace, "_MANY", 1)
    stream, _ = files_of(tmp_path, monkeypatch)
    stream.land([Change(n, 0, "a") for n in range(7)])
    said: list[str] = []
    assert replace(deliverer(stream), say=said.append).deliver() is not None
    assert said[:-1] == [
        "p, sink app: has read 7 rows so far",
        "p, sink app: sends 7 rows, and 0 keys to remove",
        "p, sink app: has sent 7 rows so far",
    ]


@pytest.mark.parametrize("content", ["", "{}", "[]", "no json"])
def test_a_manifest_that_no_delivery_has_written_is_told_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    stream, out = files_of(tmp_path, monkeypatch)
    for _ in range(2):
        stream.land()
        assert deliverer(stream).deliver() is not None
    manifest = max((out / "manifests").iterdir())
    manifest.write_text(content)
    stream.land()
    with pytest.raises(ProgressUnreadable, match=r"another file, .*sinks deliver p app --snapshot"):
        deliverer(stream).deliver()
    assert deliverer(stream).deliver(as_it_is=True) is not None
    manifest.unlink()
    newest = max((out / "manifests").iterdir())
    told = json.loads(newest.read_text())
    assert told["is_snapshot"] and sum(part["rows"] for part in told["files"]) == len(stream.rows)
    assert deliverer(stream).deliver() is not None


def test_a_folder_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, out = files_of(tmp_path, monkeypatch)
    stream.land()
    assert deliverer(stream).deliver() is not None
    file = tmp_path / "pipelines" / "p.yaml"
    told = yaml.safe_load(file.read_text())
    file.write_text(json.dumps({**told, "sinks": {"renamed": told["sinks"]["app"]}}))
    refused = command("sinks", "deliver", "p")
    assert refused.returncode == 1 and "another sink delivers there" in refused.stderr and "p/app" in refused.stderr
    assert rows_in(out) == stream.rows


@pytest.mark.parametrize("place", ["lake/out", "lake/silver/p/_delta_log", "pipelines/out", "x/../lake/out"])
def test_files_lie_apart_from_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    Stream.of(tmp_path, monkeypatch, app={"files": {"path": str(tmp_path / place)}})
    for words in (("validate", "p"), DELIVER):
        refused = command(*words)
        assert refused.returncode == 1
        assert "the files of a sink would lie among others" in refused.stdout + refused.stderr


def test_a_ledger_that_cannot_be_read_says_nothing_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = files_of(tmp_path, monkeypatch)
    stream.land()
    log = Path(str(stream.coordinator.ledger.uri)) / "_delta_log"
    max(log.glob("*.json")).write_text("no JSON")
    done = command("validate", "p")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning: what the ledger knows of sinks cannot be read" in done.stdout


@pytest.mark.parametrize("point", POINTS)
def test_files_of_a_delivery_that_was_killed_or_stopped_are_no_part_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen], point: str
) -> None:
    stream, out = files_of(tmp_path, monkeypatch)
    stream.land()
    assert command(*DELIVER, fault=point).returncode == -signal.SIGKILL
    zombie = stopped_delivery(zombies, point) if point != "sink.committed" else None
    stream.land()
    assert deliverer(stream).deliver() is not None
    stream.land()
    if zombie is not None:
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    assert deliverer(stream).deliver() is not None
    assert rows_in(out) == stream.rows
    named = {part["path"] for one in (out / "manifests").iterdir() for part in json.loads(one.read_text())["files"]}
    assert {f"parts/{file.name}" for file in (out / "parts").iterdir()} == named


def stopped_delivery(zombies: list[subprocess.Popen], point: str) -> subprocess.Popen:
    env = {**os.environ, "LAKEMARK_TEST_FAULT": f"{point}=stop"}
    zombie = subprocess.Popen([*COMMAND, *DELIVER], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    zombies.append(zombie)
    stopped(zombie)
    return zombie


def class_of(folder: Path, patch: pytest.MonkeyPatch, source: str | None = None) -> tuple[Stream, Path]:
    """A pipeline with the example of the project as its sink, or with another class."""
    sinks = folder / "sinks"
    sinks.mkdir()
    example = (PROJECT_ROOT / "include" / "sinks" / "audit_log.py").read_text()
    (sinks / "audit_log.py").write_text(source or example)
    database = folder / "log.sqlite"
    place = {"file": "audit_log.py", "class": "AuditLog", "options": {"path": str(database)}}
    return Stream.of(folder, patch, app={"python": place, "begin": "start"}), database


def rows_of(database: Path) -> Rows:
    rows = [json.loads(value) for (value,) in sqlite3.connect(database).execute("SELECT value FROM rows")]
    return sorted((row["id"], row["seq"], row["name"]) for row in rows)


def test_the_example_of_a_users_class_has_what_the_table_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, database = class_of(tmp_path, monkeypatch)
    dice = Random(2)
    for _ in range(3):
        stream.land(dice=dice)
        assert deliverer(stream).deliver() is not None
        assert rows_of(database) == stream.rows
    for point in ("sink.taken", "sink.committed"):
        stream.land(dice=dice)
        assert command(*DELIVER, fault=point).returncode == -signal.SIGKILL
        assert command(*DELIVER).returncode == 0
        assert rows_of(database) == stream.rows
    assert command(*DELIVER, "--snapshot").returncode == 0
    assert rows_of(database) == stream.rows


_LOCK, _STEP = 'execute("BEGIN IMMEDIATE")', 'execute("SELECT 1")'
BROKEN = {  # what makes the example wrong, and what is found then
    "it does not compare": ({"if self.progress() != batch.after:": "if False:"}, "does not compare"),
    "each statement is a step": (
        {_LOCK: _STEP, 'execute("COMMIT")': _STEP, 'execute("ROLLBACK")': _STEP},
        "do not move together",
    ),
    "the progress is kept for another": ({"(*self._of, progress))": '("x", "y", progress))'}, "do not move together"),
}


def test_the_kit_finds_nothing_wrong_with_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class_of(tmp_path, monkeypatch)
    done = command("sinks", "test", "p", "app", "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each took effect once" in done.stdout


@pytest.mark.parametrize("wrong", BROKEN)
def test_the_kit_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    source = (PROJECT_ROOT / "include" / "sinks" / "audit_log.py").read_text()
    changes, told = BROKEN[wrong]
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    class_of(tmp_path, monkeypatch, source)
    done = command("sinks", "test", "p", "app", "--rounds", "30")
    assert done.returncode == 1, done.stdout + done.stderr
    assert told in done.stdout


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("class Other: pass", "the class AuditLog"),
        ("this is no Python", "Python in"),
        ("class AuditLog: pass", "AuditLog(options, pipeline, sink)"),
    ],
)
def test_a_class_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    stream, _ = class_of(tmp_path, monkeypatch, source)
    stream.land([Change(1, 1, "a")])
    with pytest.raises(TerminalError) as failure:
        deliverer(stream).deliver()
    assert told in failure.value.expected
    assert deliverer(stream).standing.problem is not None


def test_what_a_class_raises_ends_the_delivery_and_shows_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "class AuditLog:\n    def __init__(self, *_): pass\n    def progress(self): return None\n"
        "    def deliver(self, batch, progress): raise KeyError([r.to_pylist() for r in batch.rows()])\n"
        "    def close(self): pass\n"
    )
    stream, _ = class_of(tmp_path, monkeypatch, source)
    stream.land([Change(1, 1, "a secret")])
    with pytest.raises(TerminalError) as failure:
        deliverer(stream).deliver()
    assert "secret" not in str(failure.value) and "secret" in failure.value.evidence
