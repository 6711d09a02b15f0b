"""Backfills as they are planned from the ledger and the target's log: no Spark, no Kafka."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.cli.command import _parser
from include.control.backfill_planner import BackfillPlanner
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.control.quarantine import Chosen
from include.control.rebuilding import LedgerRebuild
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.batch import FENCE
from include.protocol.errors import TargetBehindLedger, TerminalError
from include.protocol.generations import restart, take_over
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import PURGED, PurgeMark, purged_to_text
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.support.batches import batch, committed, source
from tests.support.hand_made import clean_log, commit, coordinator_of, land, make_target, stray
from tests.support.tables_before import ask, uri_before

_QUARANTINED = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
_QUARANTINED |= {"timestamp": pa.timestamp("us", tz="UTC"), "key": pa.binary(), "value": pa.binary()}
_QUARANTINED |= {"reason": pa.string(), "generation": pa.int32(), "batch_id": pa.int64()}
HELD = source({("t", 0): (0, 100)})


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    def held(self: Coordinator, state: object = None) -> SourceExtent:
        return HELD

    monkeypatch.setattr(Coordinator, "source", held)
    monkeypatch.setattr(BackfillPlanner, "_holder", lambda self, request, state: SimpleNamespace(extent=lambda: HELD))
    return coordinator_of(tmp_path)


def request(start: int, end: int, **more: int) -> BackfillRequest:
    return BackfillRequest(ranges=[OffsetRange("t", 0, start, end)], **more)


def test_i3_a_backfill_of_a_ledger_that_was_made_anew_is_no_earlier_one(coordinator: Coordinator) -> None:
    target = make_target(coordinator)
    for n in range(2):
        coordinator.ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
        land(target, n + 1, batch(n))
    first = Backfills(coordinator).plan(request(0, 10), "r1", "", "test")
    land(target, 3, first.batch(0))
    # One that leaves no marker in the target: it makes a new table.
    second = Backfills(coordinator).plan(BackfillRequest(into="new"), "r2", "", "test")
    assert [first.number, second.number] == [1, 2]
    commit(target, 4)
    clean_log(target)
    coordinator.ledger.set_aside()
    LedgerRebuild(coordinator).rebuild("lost", "test")
    planned = Backfills(coordinator).plan(request(5, 15), "r3", "", "test")
    assert [chunk.state for chunk in Backfills(coordinator).chunks(planned)] == ["waiting"]
    assert planned.number not in (1, 2), "quarantined records and rows name the backfill that wrote them"
    assert Backfills(coordinator).plan(request(5, 15), "r4", "", "test").number == planned.number + 1


def test_i7_a_ledger_that_was_lost_still_knows_where_reading_began(coordinator: Coordinator) -> None:
    """With `start: latest`, a new table would have records that were never to be read."""
    target = make_target(coordinator)
    for n in range(4, 6):
        land(target, n - 3, replace(batch(n), batch_id=n - 4))
    LedgerRebuild(coordinator).rebuild("lost", "test")
    into = Backfills(coordinator).plan(BackfillRequest(into="new"), "r1", "", "test")
    read = [one for ranges in into.chunks for one in ranges]
    assert [(one.start_offset, one.end_offset) for one in read] == [(40, 60)]


def test_i3_no_chunk_begins_with_a_marker_that_is_there(coordinator: Coordinator) -> None:
    """Nothing but backfills has landed, and the ledger is gone: nobody can notice that."""
    target = make_target(coordinator)
    lost = [
        Backfills(coordinator).plan(request(0, 20, records_per_chunk_max=10), f"r{n}", "", "test") for n in range(2)
    ]
    land(target, 1, lost[0].batch(1))
    commit(target, 2, markers={lost[1].batch(0).app_id: FENCE})
    clean_log(target)
    coordinator.ledger.set_aside()
    planned = Backfills(coordinator).plan(request(0, 20, records_per_chunk_max=10), "r2", "", "test")
    assert [chunk.state for chunk in Backfills(coordinator).chunks(planned)] == ["waiting", "waiting"]
    assert planned.number == 3


@pytest.mark.parametrize("left", ["its table", "a chunk beside the target"])
def test_i3_what_an_old_copy_of_the_ledger_does_not_know_is_not_taken_over(coordinator: Coordinator, left: str) -> None:
    """Chunks that have landed would count for the next backfill, whatever program has made them."""

    def in_the_ledger(_: LedgerState) -> list[Event]:
        return [BatchPlanned(batch(0)), committed(batch(0))]

    land(make_target(coordinator), 1, batch(0))
    coordinator.ledger.append(in_the_ledger)
    first = Backfills(coordinator).plan(BackfillRequest(into="new"), "r1", "", "test")
    if left == "its table":
        stray(coordinator.tables.target_of(first), first.batch(0))
    else:
        stray(uri_before(coordinator, "quarantine"), first.batch(0))
    coordinator.ledger.set_aside()
    coordinator.ledger.append(in_the_ledger)
    second = Backfills(coordinator).plan(BackfillRequest(into="new"), "r2", "", "test")
    assert (first.number, second.number) == (1, 2)
    assert [chunk.state for chunk in Backfills(coordinator).chunks(second)] == ["waiting"]


def promoted(coordinator: Coordinator, patch: pytest.MonkeyPatch) -> Path:
    """A target of two batches, in whose place the rows of a backfill have come, at version 3. It was planned when one
    of them had landed."""
    ask(patch, HELD)
    target = make_target(coordinator)
    for n in range(2):
        coordinator.ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
        land(target, n + 1, batch(n))
        if n == 0:
            backfill = Backfills(coordinator).plan(BackfillRequest(into="new"), "r", "", "test")
    GenerationChange(coordinator).begin(lambda state, source: take_over(backfill, state, source, "test"))
    Backfills(coordinator).end(backfill.number, "swapped", "test")
    return target


@pytest.mark.parametrize("back_to", [2, 1])
def test_i3_a_restore_to_before_a_promotion_is_noticed(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, back_to: int
) -> None:
    """The commit that fences the old generation brings the promoted rows."""
    DeltaTable(promoted(coordinator, monkeypatch)).restore(back_to)
    with pytest.raises(TargetBehindLedger, match="rolled the target back"):
        coordinator.plan()


@pytest.mark.parametrize(("back_to", "starts"), [(4, 20), (3, 10), (2, 20), (1, 10)])
def test_i10_a_ledger_is_rebuilt_from_a_promotion_if_its_rows_are_there(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, back_to: int, starts: int
) -> None:
    """They have taken the place of what had landed before, also of what the backfill does not hold."""
    target = promoted(coordinator, monkeypatch)
    for n in range(2):
        land(target, n + 4, replace(batch(n + 1), generation=2, batch_id=n))
    DeltaTable(target).restore(back_to)
    coordinator.ledger.set_aside()
    started, _ = LedgerRebuild(coordinator).rebuild("lost", "test")
    assert (started.start_offsets, started.restored_to) == ({TopicPartition("t", 0): starts}, back_to)


def purged(coordinator: Coordinator) -> Path:
    """A target of one batch, whose tombstones were purged."""
    target = make_target(coordinator, {PURGED: purged_to_text([PurgeMark("t", "id-t", 0, 5)])})
    coordinator.ledger.append(lambda state: [BatchPlanned(batch(0)), committed(batch(0))])
    land(target, 1, batch(0))
    return target


def commands(said: str) -> list[argparse.Namespace]:
    """What an error tells to type, as the command understands it."""
    found = [command.replace("...", "why").split() for command in re.findall(r"`lakemark ([^`]*)`", said)]
    return [_parser().parse_args(words) for words in found]


def test_i9_what_a_refused_backfill_tells_to_type_works(coordinator: Coordinator) -> None:
    purged(coordinator)
    with pytest.raises(TerminalError, match="rows that are deleted could come back") as refused:
        Backfills(coordinator).plan(request(0, 10), "r1", "", "test")
    [options] = commands(refused.value.action)
    assert options.into_new_table and not options.from_archive
    planned = Backfills(coordinator).plan(
        BackfillRequest(into="new", records_per_chunk_max=options.records_per_chunk), "r2", "", "test"
    )
    assert planned.into == "new"
    assert list(coordinator.ledger.state().backfills) == [1], "the refused one was not recorded"


def test_i9_what_a_refused_replay_tells_to_type_works(coordinator: Coordinator) -> None:
    purged(coordinator)
    aside = {"topic": "t", "partition": 0, "offset": 3, "timestamp": datetime(2026, 1, 1, tzinfo=UTC), "key": None}
    aside |= {"value": b"{", "reason": "no JSON", "generation": 1, "batch_id": 0}
    rows = pa.Table.from_pylist([aside], pa.schema(_QUARANTINED))
    write_deltalake(str(coordinator.tables.quarantine), rows)
    with pytest.raises(TerminalError, match="rows that are deleted could come back") as refused:
        Backfills(coordinator).plan(BackfillRequest(source="quarantine"), "r1", "", "test")
    renewed, discarded = commands(refused.value.action)
    assert renewed.into_new_table
    assert (
        Backfills(coordinator).quarantine.discard(Chosen(discarded.ranges, discarded.rule), discarded.reason, "test")
        == 1
    )
    assert Backfills(coordinator).quarantine.count_pending(Chosen((), None)) == 0


def test_i9_where_nobody_holds_all_records_no_new_table_is_advised(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    purged(coordinator)
    cut = source({("t", 0): (7, 100)})
    monkeypatch.setattr(BackfillPlanner, "_holder", lambda self, request, state: SimpleNamespace(extent=lambda: cut))
    with pytest.raises(TerminalError, match="leave it: no source holds all records") as refused:
        Backfills(coordinator).plan(request(7, 10), "r1", "", "test")
    assert commands(refused.value.action) == []


def test_i9_a_reset_that_reads_again_after_a_purge_changes_nothing(coordinator: Coordinator) -> None:
    target = purged(coordinator)

    def back(state: LedgerState, extent: SourceExtent) -> GenerationStarted:
        return restart("p", state, extent, 0, False, "why", "test")

    before = TableLog.open(LakeUri(str(target))).version
    change = GenerationChange(coordinator)
    for asked in (change.preview, change.begin):
        with pytest.raises(TerminalError, match="rows that are deleted could come back"):
            asked(back)
    assert (TableLog.open(LakeUri(str(target))).version, coordinator.ledger.state().generation) == (before, 1)


def test_i9_a_rebuild_from_rows_does_not_go_back_behind_what_was_purged(coordinator: Coordinator) -> None:
    target = purged(coordinator)
    commit(target, 2)
    clean_log(target)
    coordinator.ledger.set_aside()
    started, _ = LedgerRebuild(coordinator).rebuild("lost", "test")
    assert (started.origin, started.start_offsets) == ("rows", {TopicPartition("t", 0): 5})
