"""A class of a user's own that moves with the lake: the example keeps its promises, and the kit finds who does not."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT
from include.sinks.two_phase_files import TwoPhaseFiles
from tests.support.delivered import deliverer
from tests.support.stream import Stream, attempt, process
from tests.support.without_kafka import command

SOURCE = PROJECT_ROOT / "include" / "sinks" / "two_phase_files.py"


def stream_of(
    folder: Path, patch: pytest.MonkeyPatch, source: str = SOURCE.read_text(), mode: str = "two_phase"
) -> Stream:
    """A pipeline whose sink is a class of this source."""
    (folder / "classes").mkdir()
    (folder / "classes" / "two_phase_files.py").write_text(source)
    patch.setenv("LAKEMARK_SINKS", str(folder / "classes"))
    place = {"file": "two_phase_files.py", "class": "TwoPhaseFiles", "options": {"path": str(folder / "out")}}
    return Stream.of(folder, patch, app={"python": place, "mode": mode, "begin": "start"})


def held(folder: Path) -> list[tuple[object, ...]]:
    rows = TwoPhaseFiles({"path": str(folder / "out")}, "p", "app").read()
    return sorted((row["id"], row["seq"], row["name"]) for row in rows)  # type: ignore[type-var]


def pending(folder: Path) -> list[str]:
    return TwoPhaseFiles({"path": str(folder / "out")}, "p", "app").recover()


@pytest.mark.parametrize("mode", ["two_phase", "follow"])
def test_the_example_has_what_the_table_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    stream = stream_of(tmp_path, monkeypatch, mode=mode)
    for _ in range(3):
        stream.land()
        if mode == "follow":
            assert deliverer(stream).deliver() is not None
        assert held(tmp_path) == stream.rows
    assert pending(tmp_path) == []


@pytest.mark.parametrize("point", ["sink.written", "sink.prepared", "sink.landed"])
def test_an_attempt_that_is_killed_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream = stream_of(tmp_path, monkeypatch)
    stream.land()
    changes = stream.killed_at(point)
    assert len(pending(tmp_path)) == (point != "sink.written")
    attempt(stream.coordinator, 1, changes, "second")
    stream.settle(changes)
    assert held(tmp_path) == stream.rows and pending(tmp_path) == []
    stream.land()
    assert held(tmp_path) == stream.rows


def test_the_kit_finds_nothing_wrong_with_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream_of(tmp_path, monkeypatch)
    done = command("sinks", "test", "p", "app", "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each took effect once" in done.stdout


_ALWAYS = ("it does not compare", "what is prepared is forgotten", "it cannot write")
_PUBLISHED = '        _sync(self._folder / "published")\n        self._pending(name).unlink(missing_ok=True)'
_ALL = "[*sorted((self._folder / 'published').iterdir()), *(self._folder / 'pending').iterdir()]"
BROKEN = {
    "it does not compare": (
        {"if self.progress() != batch.after:": "if False:", '!= mine["after"]:': '!= mine["after"] and False:'},
        "does not compare",
    ),
    "what is prepared takes effect at once": (
        {'        _sync(self._folder / "pending")\n': "        self.commit(name)\n"},
        "and has taken effect",
    ),
    "what is prepared is forgotten": ({"return sorted(": "return [] and sorted("}, "does not name it"),
    "what was rolled back is still there": (
        {"        self._pending(name).unlink(missing_ok=True)  # first": "        # first"},
        "`recover` still names it",
    ),
    "it does not say how a commit has ended": (
        {_PUBLISHED + "\n        return True": _PUBLISHED},
        "`commit` returned None",
    ),
    "it raises where what it has taken is committed again": (
        {
            "        except FileNotFoundError:\n            return False\n        number": (
                "        except ZeroDivisionError:\n            return False\n        number"
            )
        },
        "the class raises FileNotFoundError",
    ),
    "it cannot write": (
        {"        name, part = transaction\n        if": "        name, part = 1 / 0\n        if"},
        "ZeroDivisionError",
    ),
    "rows that are prepared are seen": (
        {'sorted((self._folder / "published").iterdir()):\n            manifest': _ALL + ":\n            manifest"},
        "readers see rows of it",
    ),
}


@pytest.mark.parametrize(
    "wrong", [pytest.param(wrong, marks=() if wrong in _ALWAYS else pytest.mark.slow) for wrong in BROKEN]
)
def test_the_kit_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    source = SOURCE.read_text()
    changes, told = BROKEN[wrong]
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    stream_of(tmp_path, monkeypatch, source)
    done = command("sinks", "test", "p", "app", "--rounds", "30")
    assert done.returncode == 1, done.stdout + done.stderr
    assert told in done.stdout


def test_a_class_that_cannot_be_closed_has_got_what_it_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.read_text().replace("def close(self) -> None:\n        return", "def close(self):\n        1 / 0")
    assert "1 / 0" in source
    stream = stream_of(tmp_path, monkeypatch, source)
    stream.land()
    assert held(tmp_path) == stream.rows


def test_what_deliveries_have_left_that_were_killed_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(tmp_path, monkeypatch)
    stream.land()
    changes = stream.coming()
    for point in ("sink.written", "sink.prepared"):
        killed = process(1, changes, point, f"{point}=kill")
        assert killed.wait(60) == -signal.SIGKILL
    attempt(stream.coordinator, 1, changes, "third")
    stream.settle(changes)
    folder = tmp_path / "out" / "p" / "app"
    named = {json.loads(file.read_text())["file"] for file in (folder / "published").iterdir()}
    assert {file.name for file in (folder / "parts").iterdir()} == named


def test_a_class_that_would_forget_what_is_prepared_is_refused_with_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.read_text().replace(
        "class TwoPhaseFiles:", "class TwoPhaseFiles:\n    keeps_prepared_seconds = 900\n"
    )
    stream = stream_of(tmp_path, monkeypatch, source)
    with pytest.raises(TerminalError, match="cannot prepare its transactions") as failure:
        stream.land()
    assert "86,400 s" in failure.value.expected and "900" in failure.value.found


def test_a_class_without_two_phases_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.read_text().replace("def begin(", "def other(")
    stream = stream_of(tmp_path, monkeypatch, source)
    with pytest.raises(TerminalError, match="cannot prepare its transactions"):
        stream.land()
