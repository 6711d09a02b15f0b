"""Whom alerts go to, and what they are about."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from include.monitoring.alerts import Alert, load_notifiers, staleness_alerts
from include.protocol.errors import TerminalError


def test_a_file_says_whom_to_tell(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text("- class: a.b.Notifier\n  arguments: {to: data@example.com}\n- class: c.Other\n")
    first, second = load_notifiers(path)
    assert (first.class_, first.arguments) == ("a.b.Notifier", {"to": "data@example.com"})
    assert (second.class_, second.arguments) == ("c.Other", {})
    assert load_notifiers(None) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class: a.B", "valid list"),
        ("- klass: a.B", "0.class"),
        ("- class: NoModule", "0.class"),
        ("- class: a.B\n  arguments: [1]", "0.arguments"),
        ("- [", "while parsing"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_not_valid_says_where(tmp_path: Path, text: str | None, found: str) -> None:
    path = tmp_path / "alerts.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TerminalError, match="not valid, so no alert") as refused:
        load_notifiers(path)
    assert found in refused.value.found


def test_what_is_stale_is_told_once_and_so_is_its_end() -> None:
    assert staleness_alerts({}, {"a": "why"}) == [Alert("stale", "a", "why")]
    assert staleness_alerts({"a": "why"}, {"a": "why, for longer"}) == []
    [alert] = staleness_alerts({"a": "why"}, {})
    assert (alert.kind, alert.title) == ("fresh again", "Lakemark: a is fresh again")
    assert Alert("failed", "a", "").title == "Lakemark: a failed"


@pytest.mark.parametrize(
    "text",
    [
        "- class: a.B\n  argument: {token: hunter2}\n",
        "- class: hunter2\n",
        "- {token: hunter2}\n",
        "- class: a.B\n  arguments: {token: @hunter2}\n",
        "- class: a.B\n  arguments: {token: *hunter2}\n",
    ],
)
def test_what_a_broken_file_holds_is_not_told(tmp_path: Path, text: str) -> None:
    """Airflow shows the traceback of an import error."""
    (tmp_path / "alerts.yaml").write_text(text)
    with pytest.raises(TerminalError) as failure:
        load_notifiers(tmp_path / "alerts.yaml")
    assert "hunter2" not in "".join(traceback.format_exception(failure.value))
