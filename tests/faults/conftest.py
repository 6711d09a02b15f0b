from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.stopped import family


@pytest.fixture
def zombies() -> Iterator[list[subprocess.Popen]]:
    """Processes to be ended, come what may."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        for member in family(process):
            member.kill()
