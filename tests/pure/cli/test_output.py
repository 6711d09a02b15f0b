"""What commands print: a terminal obeys control characters, and records may hold any."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from include.cli.output import printable, report, say
from include.control.quarantine import record_json, record_line
from include.settings import PROJECT_ROOT

CLEARS_THE_SCREEN, SETS_THE_TITLE, TURNS_AROUND = "\x1b[2J", "\x1b]0;owned\x07", "\u202e"
COMMAND = "import sys; from include.cli.command import main; sys.exit(main(sys.argv[1:]))"
RECORD = {
    "topic": "t",
    "partition": 0,
    "offset": 7,
    "reason": "a rule",
    "key": None,
    "value": f'{{"id": 1, "name": "Zoë ✓ {CLEARS_THE_SCREEN}{SETS_THE_TITLE}{TURNS_AROUND}\r\x9b"}}'.encode(),
    "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("as_json", [False, True])
def test_no_record_tells_a_terminal_what_to_do(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    report(argparse.Namespace(json=as_json), [record_json(RECORD)], [record_line(RECORD)])
    say(f"an error that quotes it: {record_line(RECORD)}")
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert r"\u001b[2J" in shown.out if as_json else r"Zoë ✓ \x1b[2J\x1b]0;owned\x07\u202e\r\x9b" in shown.out


def test_other_text_stays_as_it_is() -> None:
    text = "─ █ naïve 日本語 🜁\n\ta table"
    assert printable(text) == text


def test_a_reader_that_goes_away_is_met_without_a_trace(tmp_path: Path) -> None:
    """As with `lakemark status | head -1`."""
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND, "explain", "orders"],
        env={
            **os.environ,
            "LAKEMARK_HOME": str(tmp_path),
            "LAKEMARK_PIPELINES": str(PROJECT_ROOT / "include/pipelines/examples"),
        },
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (141, "")
