"""The generation that the first plan of a newer Lakemark begins, and what it makes of older batches: no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.control.coordinator import Coordinator
from include.control.rebuilding import LedgerRebuild
from include.lake.table_log import TableLog
from include.protocol.batch import FENCE, FORM, Batch, BatchKey, Pin
from include.protocol.errors import TopicRecreated
from include.protocol.ledger_events import UPGRADE, BatchPlanned
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NEVER
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, source
from tests.support.hand_made import make_target
from tests.support.tables_before import (
    ask,
    begun_with,
    events_of,
    land_at_the_point,
    land_before,
    make_before,
    uri_before,
    with_tables,
)

pytestmark = pytest.mark.usefixtures("_kafka")

PINS = {"lake://silver/prices": Pin(4)}


def old(batch_id: int) -> Batch:
    """A batch as Lakemark 0.1.0 planned it."""
    return replace(batch(batch_id), form=1, pins=PINS)


def with_old_batches(
    folder: Path, landed: int, planned: Sequence[Batch] = (), half_landed: bool = False
) -> Coordinator:
    """A pipeline whose batches are of the first form, which names no positions.

    Args:
        landed: how many have landed; without any there is no target. half_landed: whether the planned batch is in the
            history already.
    """
    found = with_tables(folder)
    history = make_before(found, "history")
    target = make_target(found) if landed else None
    for n in range(landed + half_landed):
        land_before(history, n + 1, old(n))
        if target is not None and n < landed:
            land_at_the_point(target, n + 1, old(n))
    events = [begun_with(old(0)), *events_of(*map(old, range(landed))), *map(BatchPlanned, planned)]
    found.ledger.append(lambda state: events)
    return found


def planned_by_the_new_one(coordinator: Coordinator) -> LedgerState:
    coordinator.plan()
    return coordinator.ledger.state()


def markers(coordinator: Coordinator) -> dict[str, int | None]:
    """The markers of the old generation in target and history."""
    logs = {
        "target": TableLog.open(coordinator.tables.target),
        "history": TableLog.open(uri_before(coordinator, "history")),
    }
    return {name: log.marker("p", 1) for name, log in logs.items() if log is not None}


def test_i5_the_first_plan_of_the_new_form_fences_the_old_jobs_in_every_table(tmp_path: Path) -> None:
    coordinator = with_old_batches(tmp_path, landed=2)
    state = planned_by_the_new_one(coordinator)
    [begun] = state.generations
    assert (begun.origin, begun.form, state.form) == (UPGRADE, FORM, FORM)
    assert markers(coordinator) == {"target": FENCE, "history": FENCE}
    assert state.positions["history"].batch == BatchKey(1, 1)
    assert state.pending is not None
    assert state.pending.batch.ranges[0].start_offset == 20
    assert planned_by_the_new_one(coordinator).generations == state.generations, "once"


def test_i1_a_batch_that_was_planned_before_the_upgrade_keeps_ranges_and_pins(tmp_path: Path) -> None:
    coordinator = with_old_batches(tmp_path, landed=1, planned=[old(1)], half_landed=True)
    state = planned_by_the_new_one(coordinator)
    [again] = state.batches
    assert (again.batch.key, again.batch.form) == (BatchKey(2, 0), FORM)
    assert (again.batch.ranges, again.batch.pins) == (old(1).ranges, PINS)


def test_i11_what_an_old_batch_has_left_half_landed_is_behind_the_position_that_the_new_one_stands_on(
    tmp_path: Path,
) -> None:
    """So it is taken back, whatever program wrote it."""
    state = planned_by_the_new_one(with_old_batches(tmp_path, landed=1, planned=[old(1)], half_landed=True))
    stands_on = state.batches[0].stands_on["history"]
    assert (stands_on.batch, stands_on.version) == (BatchKey(1, 0), 1)


def test_i5_an_upgrade_before_the_first_batch_has_landed_needs_no_target(tmp_path: Path) -> None:
    coordinator = with_old_batches(tmp_path, landed=0, planned=[old(0)], half_landed=True)
    state = planned_by_the_new_one(coordinator)
    assert TableLog.open(coordinator.tables.target) is None, "the first batch makes it"
    assert markers(coordinator) == {"history": FENCE}
    assert state.batches[0].batch.ranges == old(0).ranges
    assert state.batches[0].stands_on["history"].marker == NEVER


def test_i7_an_upgrade_waits_until_the_topics_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = with_old_batches(tmp_path, landed=1)
    with monkeypatch.context() as patched:
        ask(patched, source({}))
        with pytest.raises(TopicRecreated):
            coordinator.plan()
    assert markers(coordinator) == {"target": 0, "history": 0}, "nothing was fenced"
    assert planned_by_the_new_one(coordinator).generations[-1].origin == UPGRADE


def test_i10_a_ledger_of_old_batches_is_rebuilt(tmp_path: Path) -> None:
    coordinator = with_old_batches(tmp_path, landed=3)
    shutil.rmtree(str(coordinator.ledger.uri))
    started, _ = LedgerRebuild(coordinator).rebuild("lost", "test")
    assert (started.generation, started.start_offsets) == (2, {TopicPartition("t", 0): 30})
    assert (started.positions or {})["history"].batch == BatchKey(1, 2), "a marker of the first form is the batch id"
    state = coordinator.ledger.state()
    assert [g.generation for g in state.generations] == [2]
    assert markers(coordinator) == {"target": FENCE, "history": FENCE}


def test_i10_a_damaged_ledger_is_set_aside_and_rebuilt(tmp_path: Path) -> None:
    coordinator = with_old_batches(tmp_path, landed=2)
    [data, *_] = Path(str(coordinator.ledger.uri)).glob("*.parquet")
    data.write_bytes(b"no parquet")
    started, aside = LedgerRebuild(coordinator).rebuild("damaged", "test")
    assert started.start_offsets == {TopicPartition("t", 0): 20}
    assert aside is not None
    assert (Path(str(aside)) / data.name).read_bytes() == b"no parquet", "a person can still look at it"
    assert DeltaTable(str(coordinator.ledger.uri)).version() >= 0
