"""The script `lakemark`, which `make setup` installs, calls a function that is there."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint

import pytest

from include.settings import PROJECT_ROOT


def test_the_installed_script_calls_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a `git pull` without `make setup`, the script still calls the name that it was installed with."""
    entry = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["scripts"]["lakemark"]
    assert entry == "include.cli:main"
    main = EntryPoint("lakemark", entry, "console_scripts").load()
    monkeypatch.setattr(sys, "argv", ["lakemark", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "Exactly-once micro-batches" in capsys.readouterr().out
    assert callable(EntryPoint("lakemark", entry, "console_scripts").load())  # no module has taken its name meanwhile
