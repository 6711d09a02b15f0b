"""What maintenance does to tables without Spark."""

from __future__ import annotations

import shutil
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from include.lake.data_files import file_of_int96
from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.log_store import commit_file
from include.lake.merge.landing import land
from include.lake.merge.snapshot import Snapshot
from include.lake.upkeep import keep_appended, shape_of
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged
from include.protocol.ledger_events import BatchPlanned
from tests.local.lake.merge.test_upsert import a_row, make_table, upsert
from tests.support.batches import batch, committed


def test_a_ledger_of_many_files_becomes_few_and_says_the_same(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    for n in range(25):
        ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
    before, rows = shape_of(ledger.uri, 168), ledger.rows()
    assert "compacted" in keep_appended(ledger.uri, 168)
    after = shape_of(ledger.uri, 168)
    assert (before.files, after.files, after.records) == (25, 1, len(rows))
    assert (before.removable_files, after.removable_files, shape_of(ledger.uri, 0).removable_files) == (0, 0, 25)
    assert ledger.rows() == rows
    ledger.append(lambda state: [BatchPlanned(batch(25))])
    assert keep_appended(LakeUri(str(tmp_path / "none")), 168) == []


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_that_holds_int96_is_found(tmp_path: Path, inside: bool) -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "at": pa.StructArray.from_arrays([at], ["at"]) if inside else at})
    write_deltalake(tmp_path / "t", rows)
    write_deltalake(tmp_path / "t", rows, mode="append")
    table = open_table(LakeUri(str(tmp_path / "t")))
    assert file_of_int96(table) is None
    name = sorted(file.name for file in (tmp_path / "t").glob("*.parquet"))[1]
    pq.write_table(rows, tmp_path / "t" / name, use_deprecated_int96_timestamps=True)
    assert file_of_int96(table) == name
    (tmp_path / "t" / name).unlink()
    with pytest.raises(TableDamaged):
        file_of_int96(table)


def test_int96_is_looked_for_in_the_files_of_a_shallow_clone(tmp_path: Path) -> None:
    """Its log names the files of another table by absolute, percent-encoded paths."""
    rows = pa.table({"id": [1], "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    origin, clone = tmp_path / "a b", tmp_path / "clone"
    write_deltalake(origin, rows)
    shutil.copytree(origin / "_delta_log", clone / "_delta_log")
    [data] = origin.glob("*.parquet")
    commit = clone / "_delta_log" / commit_file(0)
    commit.write_text(commit.read_text().replace(data.name, quote(str(data))))
    table = open_table(LakeUri(str(clone)))
    assert file_of_int96(table) is None
    pq.write_table(rows, data, use_deprecated_int96_timestamps=True)
    assert file_of_int96(table) is not None


def test_a_table_without_timestamps_is_not_asked_for_int96(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "day": [date(2026, 6, 1)]}))
    table = open_table(LakeUri(str(tmp_path / "t")))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()  # whoever looked would fail
    assert file_of_int96(table) is None


def test_a_vector_that_no_version_names_can_be_removed(tmp_path: Path) -> None:
    """What a job leaves that is killed between its vectors and its commit."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    for seq in (1, 2):
        rows = pa.concat_tables([a_row(schema, id_, seq) for id_ in range(3 - seq)])
        land(Snapshot.of(uri), upsert(rows, "bigint"), None, "{}")
    [needed] = (tmp_path / "t").glob("deletion_vector_*.bin")
    shape = shape_of(uri, 0)
    assert shape is not None
    assert shape.removable_files == 0
    shutil.copy(needed, tmp_path / "t" / f"deletion_vector_{uuid.uuid4()}.bin")
    shape = shape_of(uri, 0)
    assert shape is not None
    assert shape.removable_files == 1
