"""A writer of the ledger that stands still at the last moment, and goes on long after. A real process, no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from include.lake.delta_tables import commit_markers, open_table
from include.lake.ledger import Ledger
from include.lake.upkeep import keep_appended
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted, BatchPlanned
from tests.support.at_the_link import is_possible
from tests.support.batches import batch
from tests.support.stopped import resumed, stopped

pytestmark = pytest.mark.skipif(not is_possible(), reason="holding a system call back needs Linux")
ROOT = Path(__file__).parents[3]
HOUR = 3600


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [BatchPlanned(batch(0))])
    return ledger


def start(kind: str, path: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.late_writers", kind, path, "at-the-link"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def an_hour_goes_by(path: str) -> None:
    """Others commit, and the log's clean-up removes what is older than it is kept."""
    for n in range(12):
        Ledger(LakeUri(path)).append(lambda state, n=n: [AttemptStarted(1, 0, f"a{n}", "h", "cli")])
    then = time.time() - HOUR
    for file in Path(path, "_delta_log").iterdir():
        os.utime(file, (then, then))
    keep_appended(LakeUri(path), 168)


def taken_name(path: str, version: int) -> Path:
    """The name of a commit that others have made."""
    table = open_table(LakeUri(path))
    assert table is not None and table.version() > version
    return Path(path, "_delta_log", f"{version:020}.json")


def test_i1_an_event_of_a_writer_that_slept_at_its_hard_link_is_recorded_before_it_is_acknowledged(
    ledger: Ledger, zombies: list[subprocess.Popen]
) -> None:
    """The log is kept for ten minutes: after that the name that the sleeper wants is free again."""
    table = open_table(ledger.uri)
    assert table is not None
    process = start("appends", str(ledger.uri))
    zombies.append(process)
    sleeper = stopped(process)
    an_hour_goes_by(str(ledger.uri))
    assert not taken_name(str(ledger.uri), table.version() + 1).exists()
    code, said = resumed(process, sleeper)
    assert (code, said.strip()) == (0, "[0, 12]"), "it decides anew on what others have recorded"
    attempts = [row["attempt_id"] for row in ledger.rows() if row["event"] == "attempt_started"]
    assert attempts == [*(f"a{n}" for n in range(12)), "zombie"]
    assert [row["sequence"] for row in ledger.rows()] == list(range(14))


def test_i5_a_fence_whose_writer_slept_at_its_hard_link_is_none(
    ledger: Ledger, zombies: list[subprocess.Popen]
) -> None:
    table = open_table(ledger.uri)
    assert table is not None
    process = start("fences", str(ledger.uri))
    zombies.append(process)
    sleeper = stopped(process)
    an_hour_goes_by(str(ledger.uri))
    name = taken_name(str(ledger.uri), table.version() + 1)
    assert not name.exists()
    code, said = resumed(process, sleeper)
    assert (code, said.strip(), name.exists()) == (0, "False", True)
    now = open_table(ledger.uri)
    assert now is not None and now.transaction_version("zombie") is None
    assert commit_markers(now, {"zombie": 7}, "{}")
