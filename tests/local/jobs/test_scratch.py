"""A scratch folder goes with the process that made it. Real processes, killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from include.scratch import scratch_folder
from include.settings import PROJECT_ROOT

_HOLDS_ONE = """
from include.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "journal.jsonl").write_text("{}")
    print(folder, flush=True)
    input()
"""


def test_what_a_killed_process_left_goes_with_the_next_one_and_what_a_living_one_holds_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", _HOLDS_ONE], cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    try:
        held, left = [Path(holder.stdout.readline().decode().strip()) for holder in holders if holder.stdout]
        holders[1].kill()
        holders[1].wait()
        assert left.exists()
        with scratch_folder() as own:
            assert own.stat().st_mode & 0o077 == 0
            assert (own.exists(), (held / "journal.jsonl").exists(), left.exists()) == (True, True, False)
        assert not own.exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def test_many_that_make_folders_at_once_take_none_from_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    makes_many = """
from include.scratch import scratch_folder
for _ in range(300):
    with scratch_folder() as folder:
        (folder / "file").write_text("mine")
        assert (folder / "file").read_text() == "mine"
"""
    makers = [subprocess.Popen([sys.executable, "-c", makes_many], cwd=PROJECT_ROOT) for _ in range(4)]
    assert [maker.wait() for maker in makers] == [0] * 4
    assert list(tmp_path.iterdir()) == []
