"""The command in this process, for all tests of this room."""

from __future__ import annotations

import json
from typing import Any

import pytest

from include.cli.command import main
from tests.support.world import World


@pytest.fixture
def lakemark(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """The command, in this process: returns its JSON; fails if the exit code is another one."""
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run
