"""A table that the pipeline file left out for a time lacks what has landed meanwhile: it is filled, or accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.audit.auditor import audit
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.fence import Fence
from include.protocol.batch import FENCE
from include.protocol.errors import TargetBehindLedger
from include.protocol.ledger_events import TablesLeftOut
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch
from tests.support.hand_made import make_target
from tests.support.tables_before import (
    begun_with,
    events_of,
    folder_before,
    land_at_the_point,
    land_before,
    make_before,
    reset,
    with_batches,
    with_one_batch,
    with_tables,
)

TP = TopicPartition("t", 0)


@pytest.mark.usefixtures("_kafka")
def test_i3_a_table_that_the_file_left_out_for_a_time_is_filled_or_accepted(tmp_path: Path) -> None:
    """Two batches landed without it."""
    coordinator = with_tables(tmp_path)
    at = land_before(make_before(coordinator, "history"), 1, batch(0))
    target = make_target(coordinator)
    land_at_the_point(target, 1, batch(0), {"history": at})
    positions = {"history": replace(at, left_out=True)}
    for n in (1, 2):
        land_at_the_point(target, n + 1, batch(n), positions)
    first, rest = events_of(batch(0), positions={"history": at}), events_of(batch(1), batch(2), positions=positions)
    coordinator.ledger.append(lambda state: [begun_with(batch(0)), *first, *rest])
    for asks in (coordinator.plan, lambda: reset(coordinator)):
        with pytest.raises(TargetBehindLedger, match=r"left (this table|it) out"):
            asks()
    report = audit(coordinator.settings, coordinator.pipeline)
    assert [f.table for f in report.findings if "left this table out" in f.what] == ["history"]
    with pytest.raises(TargetBehindLedger, match="reset p --from 1"):
        reset(coordinator)
    DeltaTable(folder_before(coordinator, "history")).restore(0)
    with pytest.raises(TargetBehindLedger, match="reset p --from 0"):
        reset(coordinator)
    DeltaTable(folder_before(coordinator, "history")).restore(1)
    started = reset(coordinator, 1)
    assert started.start_offsets == {TP: 10}
    found = (started.positions or {})["history"]
    assert found == replace(at, digest=None, version=found.version)


@pytest.mark.usefixtures("_kafka")
def test_i5_a_table_that_the_file_left_out_at_a_reset_is_fenced_before_it_is_written_again(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    without = with_tables(tmp_path, target={"table": "lake://silver/p"})
    started = reset(without)
    history = LakeUri(str(folder_before(coordinator, "history")))
    assert marker_of(history) == 0
    Fence(coordinator.settings, coordinator.pipeline, started).raise_in(history, is_point=False)
    assert marker_of(history) == FENCE
    log = TableLog.open(history)
    assert log is not None
    assert log.position("p", 2).batch == (1, 0), "it stands where it stood"


def marker_of(table: LakeUri) -> int | None:
    log = TableLog.open(table)
    assert log is not None
    return log.marker("p", 1)


@pytest.mark.usefixtures("_kafka")
def test_i3_nothing_says_which_offsets_a_chunk_has_read_so_its_table_is_filled_from_the_start(tmp_path: Path) -> None:
    """No batch has landed since, so no position tells."""
    coordinator = with_batches(tmp_path, 2)
    coordinator.ledger.append(lambda state: [TablesLeftOut(state.generation, "p backfill 1 chunk 0", ("history",))])
    for asks in (coordinator.plan, lambda: reset(coordinator), lambda: reset(coordinator, 1)):
        with pytest.raises(TargetBehindLedger, match=r"left (this table|it) out"):
            asks()
    report = audit(coordinator.settings, coordinator.pipeline)
    assert [f.table for f in report.findings if "left this table out" in f.what] == ["history"]
    assert reset(coordinator, "earliest").start_offsets == {TP: 0}
    assert coordinator.plan().batch.generation == 2
