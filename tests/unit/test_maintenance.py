"""What maintenance decides, and what it does to tables without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from include.delta_tables import file_of_int96, open_table
from include.ledger import Ledger
from include.protocol.errors import TableDamaged, TerminalError
from include.protocol.ledger_events import BatchPlanned, GenerationStarted
from include.protocol.maintenance import (
    TableShape,
    purgeable,
    purged_from,
    purged_to_text,
    verify_not_purged,
    wants_optimize,
)
from include.protocol.ranges import OffsetRange, TopicPartition
from include.table_upkeep import keep_appended, shape_of
from tests.support.batches import batch, committed

NOW = datetime(2026, 6, 1, tzinfo=UTC)
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("small", "deleted", "due"), [(20, 0, False), (21, 0, True), (1, 200, False), (1, 201, True), (0, 0, False)]
)
def test_files_are_rewritten_when_it_pays(small: int, deleted: int, due: bool) -> None:
    shape = TableShape(small, small, 10, 10, 0, 1, records=1000, deleted=deleted)
    assert wants_optimize(shape, small_files_max=20) is due


def lived(days_ago: float, *events: object) -> list[tuple]:
    return [(NOW - timedelta(days=days_ago), event) for event in events]


def reset(generation: int, offset: int) -> GenerationStarted:
    return GenerationStarted(generation, {T0: offset}, {"t": "id-t"}, "cluster", "earliest", "why", "ada")


OLD = [*lived(9, BatchPlanned(batch(0)), committed(batch(0))), *lived(8, BatchPlanned(batch(1)), committed(batch(1)))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], {}),
        (lived(1, BatchPlanned(batch(0)), committed(batch(0))), {}),  # young
        (OLD, {T0: 20}),
        ([*OLD, *lived(8, BatchPlanned(batch(2)))], {T0: 20}),  # planned, not committed
        ([*OLD, *lived(1, BatchPlanned(batch(2)), committed(batch(2)))], {T0: 20}),
        ([*OLD, *lived(1, reset(2, 5))], {T0: 5}),  # read anew from there
        ([*OLD, *lived(1, reset(2, 0))], {}),
    ],
)
def test_tombstones_may_go_once_their_batch_is_old(rows: list, expected: dict) -> None:
    assert purgeable(rows, NOW - timedelta(days=7)) == expected


@pytest.mark.parametrize(
    ("chunks", "refused"),
    [
        ([(0, 50)], True),
        ([(0, 50), (50, 99)], True),
        ([(0, 50), (50, 100)], False),  # the deletes are read again too
        ([(0, 200)], False),
        ([(100, 120)], False),
    ],
)
def test_i9_a_backfill_that_would_bring_deleted_rows_back_is_refused(chunks: list, refused: bool) -> None:
    ranges = [(OffsetRange("t", 0, *ends),) for ends in chunks]
    if refused:
        with pytest.raises(TerminalError, match="deletes that came after"):
            verify_not_purged("p", ranges, {T0: 100})
    else:
        verify_not_purged("p", ranges, {T0: 100})
    verify_not_purged("p", ranges, {})


def test_what_was_purged_is_written_down_with_the_table() -> None:
    assert purged_from({"lakemark.tombstonesPurgedTo": purged_to_text({T0: 7})}) == {T0: 7}
    assert purged_from({}) == {}


def test_a_ledger_of_many_files_becomes_few_and_says_the_same(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "l"))
    for n in range(25):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
    before, rows = shape_of(ledger.path, 168), ledger.rows()
    assert "compacted" in keep_appended(ledger.path, 168)
    after = shape_of(ledger.path, 168)
    assert (before.files, after.files, after.records) == (25, 1, len(rows))
    assert (before.removable_files, after.removable_files, shape_of(ledger.path, 0).removable_files) == (0, 0, 25)
    assert ledger.rows() == rows
    ledger.append(lambda state: [BatchPlanned(batch(25))])
    assert keep_appended(str(tmp_path / "none"), 168) == []


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_that_holds_int96_is_found(tmp_path: Path, inside: bool) -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "at": pa.StructArray.from_arrays([at], ["at"]) if inside else at})
    write_deltalake(tmp_path / "t", rows)
    write_deltalake(tmp_path / "t", rows, mode="append")
    table = open_table(str(tmp_path / "t"))
    assert file_of_int96(table) is None
    name = sorted(file.name for file in (tmp_path / "t").glob("*.parquet"))[1]
    pq.write_table(rows, tmp_path / "t" / name, use_deprecated_int96_timestamps=True)
    assert file_of_int96(table) == name
    (tmp_path / "t" / name).unlink()
    with pytest.raises(TableDamaged):
        file_of_int96(table)


def test_a_table_without_timestamps_is_not_asked_for_int96(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "day": [NOW.date()]}))
    table = open_table(str(tmp_path / "t"))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()  # whoever looked would fail
    assert file_of_int96(table) is None
