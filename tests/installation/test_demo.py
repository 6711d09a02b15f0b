"""`make demo`, in an installation of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import settings_in
from tests.support.world import LAKEMARK


@pytest.mark.slow
def test_the_demo_ends_well(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "home")

    def lakemark(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LAKEMARK, command], env=settings.child_environment(), capture_output=True, text=True, check=False
        )

    try:
        done = lakemark("demo")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        assert json.loads((settings.home / "demo" / "report.json").read_text())["good"]
    finally:
        lakemark("down")
