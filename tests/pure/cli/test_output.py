"""What commands print: a terminal obeys control characters, and records may hold any."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

import pytest

from include.cli.output import printable, report, say
from include.control.quarantine import record_json, record_line

CLEARS_THE_SCREEN, SETS_THE_TITLE, TURNS_AROUND = "\x1b[2J", "\x1b]0;owned\x07", "\u202e"
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
