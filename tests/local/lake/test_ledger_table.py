"""The ledger's table itself: real Delta files, no Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable

from include.lake import ledger_reads
from include.lake.ledger import CONFIGURATION, Ledger
from include.lake.uri import LakeUri
from include.protocol.batch import BatchKey
from include.protocol.errors import LedgerConflict, TableDamaged
from include.protocol.ledger_events import AttemptStarted, BatchPlanned
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, committed
from tests.support.damage import Damage, cut, emptied, gap, no_log


def test_an_empty_ledger_is_an_empty_state(tmp_path: Path) -> None:
    assert Ledger(LakeUri(str(tmp_path / "l"))).state() == LedgerState()


def test_events_come_back_in_order(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [BatchPlanned(batch(0)), AttemptStarted(1, 0, "a", "h", "cli")])
    after = ledger.append(lambda state: [committed(batch(0))])
    assert ledger.state() == after
    assert [row["event"] for row in ledger.rows()] == ["planned", "attempt_started", "committed"]
    assert [row["sequence"] for row in ledger.rows()] == [0, 1, 2]


def test_a_change_is_seen_without_reading_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    seen = [ledger.changed_at()]
    for event in (BatchPlanned(batch(0)), AttemptStarted(1, 0, "a", "h", "cli"), committed(batch(0))):
        ledger.append(lambda state, event=event: [event])
        seen.append(ledger.changed_at())
    assert seen[0] is None
    assert seen[1:] == sorted(set(seen[1:]))


def test_i1_planners_that_race_make_one_plan(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [])
    planners = 4
    together = Barrier(planners)

    def plan(number: int) -> LedgerState:
        met = False

        def decide(state: LedgerState) -> list[BatchPlanned]:
            nonlocal met
            if not met:  # all have read the empty ledger before any writes
                met = True
                together.wait(timeout=30)
            return [] if state.pending else [BatchPlanned(batch(0, ("t", 0, 0, 10 + number)))]

        return ledger.append(decide)

    with ThreadPoolExecutor(planners) as pool:
        states = list(pool.map(plan, range(planners)))
    assert len({state.pending.batch.fingerprint for state in states}) == 1
    assert [row["event"] for row in ledger.rows()] == ["planned"]


def test_i1_a_ledger_that_was_created_a_second_time_in_between_is_a_lost_race(tmp_path: Path) -> None:
    """Two processes that find no ledger may both create it. The later creation changes the table's metadata under an
    append."""
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [BatchPlanned(batch(0))])
    tries = 0

    def decide(state: LedgerState) -> list[AttemptStarted]:
        nonlocal tries
        tries += 1
        if tries == 1:
            DeltaTable(str(ledger.uri)).alter.set_table_description("another writer was here")
        return [AttemptStarted(1, 0, "a", "h", "cli")]

    ledger.append(decide)
    assert tries == 2
    assert [row["event"] for row in ledger.rows()] == ["planned", "attempt_started"]


def test_an_event_that_cannot_follow_is_not_recorded(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    with pytest.raises(LedgerConflict):
        ledger.append(lambda state: [committed(batch(0))])
    assert ledger.rows() == []


def test_a_long_ledger_stays_in_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.lake.ledger._FILES_MAX", 5)
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    for n in range(8):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
        ledger.keep_few_files()
    assert len(DeltaTable(str(ledger.uri)).file_uris()) <= 5
    assert ledger.state().committed_through == 7
    assert [row["sequence"] for row in ledger.rows()] == list(range(len(ledger.rows())))


def test_a_recent_state_is_read_from_the_newest_kept_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.lake.ledger.SNAPSHOT_EVERY", 3)
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    for n in range(8):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n))], about=None)
        ledger.append(lambda state, n=n: [committed(batch(n))], about=batch(n).key)
    ledger.append(lambda state: [BatchPlanned(batch(8))], about=None)
    whole, recent = ledger.state(), ledger.recent()
    assert (recent.first_batch_id, len(recent.batches), recent.is_whole) == (5, 4, False)
    assert recent.batches == whole.batches[5:]
    assert (recent.next_offsets, recent.committed_offsets) == (whole.next_offsets, whole.committed_offsets)
    assert recent.pending.batch == batch(8)
    # For an older batch, and for a backfill's chunk, the whole ledger is read.
    assert ledger.recent(batch(2).key) == ledger.recent(BatchKey(-1, 0)) == whole
    assert ledger.recent(batch(6).key) == recent
    assert [row["sequence"] for row in ledger.rows()] == list(range(len(ledger.rows())))


def test_a_kept_state_that_contradicts_the_events_before_it_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [BatchPlanned(batch(0)), committed(batch(0))])
    kept = ledger.state().snapshot()
    with pytest.raises(LedgerConflict, match="snapshot after"):
        ledger.append(lambda state: [replace(kept, next_offsets={TopicPartition("t", 0): 11})])
    ledger.append(lambda state: [kept])
    assert ledger.state().committed_through == 0


def test_a_writer_that_slept_until_the_log_forgot_what_it_read_decides_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {**CONFIGURATION, "delta.logRetentionDuration": "interval 0 seconds"}
    monkeypatch.setattr("include.lake.ledger.CONFIGURATION", kept)
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    ledger.append(lambda state: [BatchPlanned(batch(0)), committed(batch(0))])
    read: list[int] = []

    def decide(state: LedgerState) -> list[BatchPlanned]:
        read.append(state.next_batch_id)
        if len(read) == 1:
            for n in range(1, 30):
                ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
        return [BatchPlanned(batch(state.next_batch_id))]

    after = ledger.append(decide)
    assert (tmp_path / "l" / "_delta_log" / f"{2:020}.json").exists() is False, "the log has forgotten it"
    assert read == [1, 30]
    assert ledger.state() == after


@pytest.mark.parametrize("damage", [cut, emptied, gap, no_log])
def test_a_damaged_log_is_said_to_be_damaged(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "_lakemark" / "ledger" / "orders"
    ledger = Ledger(LakeUri(str(path)))
    for n in range(3):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
    damage(sorted((path / "_delta_log").glob("*.json")))
    ledger_reads._known.clear()  # as another process finds it
    for use in (ledger.state, lambda: ledger.append(lambda state: [])):
        with pytest.raises(TableDamaged, match="ledger") as failure:
            use()
        assert "`lakemark ledger rebuild orders`" in failure.value.action
