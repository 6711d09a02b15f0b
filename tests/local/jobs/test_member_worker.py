"""What a group's worker says until its end. A short Python program stands in for the job: it needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import include.jobs.member_worker
from include.jobs.member_worker import MemberWorker
from tests.conftest import settings_in


def test_the_words_of_a_worker_that_dies_in_the_middle_of_a_line_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os; print('one'); print('the reas', end='', flush=True); os.kill(os.getpid(), 9)"

    def start(*_: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, bufsize=0)

    monkeypatch.setattr(include.jobs.member_worker, "start_job", start)
    worker = MemberWorker(settings_in(tmp_path), "test")
    try:
        worker._process.wait()
        assert "SIGKILL" in str(worker.ending())
        assert worker.logged() == ["one", "the reas"]
        assert worker.logged() == []
    finally:
        worker.end()
