"""What a process has read of a ledger: it is read again as soon as somebody else has written. No Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from include.lake import ledger_reads
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted, BatchPlanned
from include.protocol.ledger_state import LedgerState
from tests.support.batches import batch, committed

ROOT = Path(__file__).parents[3]
ANOTHER_PROCESS = """
import sys
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted
Ledger(LakeUri(sys.argv[1])).append(lambda state: [AttemptStarted(1, 12, "another", "h", "cli")])
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """It has a checkpoint, and a batch is pending."""
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    _fill(ledger)
    return ledger


def _fill(ledger: Ledger) -> None:
    for n in range(12):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
    ledger.append(lambda state: [BatchPlanned(batch(12))])


def _attempts(state: LedgerState) -> list[str]:
    assert state.pending is not None
    return [attempt.attempt_id for attempt in state.pending.attempts]


def test_what_a_process_has_appended_it_does_not_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.recent()
    read: list[int | None] = []
    rows_from = ledger_reads.rows_from
    monkeypatch.setattr(
        ledger_reads, "rows_from", lambda table, column, least: read.append(least) or rows_from(table, column, least)
    )
    for n in range(4):
        ledger.append(lambda state, n=n: [AttemptStarted(1, 12, f"a{n}", "h", "cli")], about=batch(12).key)
        assert _attempts(ledger.recent()) == [f"a{m}" for m in range(n + 1)]
    assert read == []
    assert _attempts(ledger.state()) == ["a0", "a1", "a2", "a3"]
    assert [row["sequence"] for row in ledger.rows()] == list(range(len(ledger.rows())))


def test_i1_what_another_process_has_appended_is_read(ledger: Ledger) -> None:
    assert _attempts(ledger.recent()) == []
    subprocess.run([sys.executable, "-c", ANOTHER_PROCESS, str(ledger.uri)], cwd=ROOT, check=True)
    decided_on = []

    def decide(state: LedgerState) -> list[AttemptStarted]:
        decided_on.append(_attempts(state))
        return [AttemptStarted(1, 12, "own", "h", "cli")]

    ledger.append(decide, about=batch(12).key)
    assert decided_on == [["another"]]
    assert _attempts(ledger.state()) == ["another", "own"]


def test_i1_a_ledger_that_was_made_anew_is_read_though_its_newest_version_is_the_same(ledger: Ledger) -> None:
    ledger.append(lambda state: [AttemptStarted(1, 12, "lost", "h", "cli")])
    assert _attempts(ledger.recent()) == ["lost"]
    shutil.rmtree(str(ledger.uri))
    script = f"""
import sys
sys.argv = ["", {str(ledger.uri)!r}]
from tests.local.lake.test_ledger_reads import Ledger, LakeUri, _fill
ledger = Ledger(LakeUri(sys.argv[1]))
_fill(ledger)
"""
    subprocess.run([sys.executable, "-c", script + ANOTHER_PROCESS], cwd=ROOT, check=True)
    assert _attempts(ledger.recent()) == ["another"]


def test_a_state_that_lacks_a_batch_is_no_answer_about_it(ledger: Ledger) -> None:
    assert not ledger.recent().is_whole
    assert ledger.recent(batch(1).key).batches[1].batch == batch(1)
    whole: list[LedgerState] = []
    ledger.append(lambda state: whole.append(state) or [])
    assert whole[0].is_whole


def test_a_process_keeps_no_more_than_some_ledgers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reads, "_KNOWN_MAX", 2)
    for name in "abc":
        _fill(ledger := Ledger(LakeUri(str(tmp_path / name))))
        ledger.recent()
    assert [uri.name for uri in ledger_reads._known] == ["b", "c"]
