"""Rows that are added to a table without Spark, as every reader sees them. Real Delta files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from include.lake.delta_tables import CHECKPOINT_EVERY
from include.lake.merge.append import Append
from include.lake.merge.compaction import FILES_MIN, Compaction
from include.lake.merge.landing import Marker, MarkerIsThereError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upkeep import keep_quick
from include.lake.uri import LakeUri
from tests.support.readers import by_deltalake

SCHEMA = pa.schema([("topic", pa.string()), ("offset", pa.int64()), ("value", pa.binary())])


@pytest.fixture
def uri(tmp_path: Path) -> LakeUri:
    """A table as old writers make it: without deletion vectors, in which only `append` may write."""
    DeltaTable.create(str(tmp_path / "t"), SCHEMA)
    return LakeUri(str(tmp_path / "t"))


def rows_of(numbers: range) -> pa.Table:
    return pa.Table.from_pylist([{"topic": "t", "offset": n, "value": b"\x00%d" % n} for n in numbers], SCHEMA)


def test_rows_are_added_with_their_marker_once(uri: LakeUri) -> None:
    land(Snapshot.of(uri), Append(rows_of(range(3))), Marker("app", 7), '{"a": 1}')
    with pytest.raises(MarkerIsThereError):
        land(Snapshot.of(uri), Append(rows_of(range(9))), Marker("app", 7), "{}")
    land(Snapshot.of(uri), Append(rows_of(range(3, 5)).drop_columns("value")), Marker("app", 8), "{}")
    table = DeltaTable(str(uri))
    [newest, before, _] = table.history()
    assert (before["operation"], before["isBlindAppend"], before["userMetadata"]) == ("WRITE", True, '{"a": 1}')
    assert (before["operationMetrics"]["numOutputRows"], newest["operationMetrics"]["numOutputRows"]) == ("3", "2")
    assert table.transaction_version("app") == 8
    found = QueryBuilder().register("t", table).execute('SELECT "offset", value FROM t ORDER BY "offset"').read_all()
    values = [b"\x000", b"\x001", b"\x002", None, None]
    assert pa.table(found).to_pydict() == {"offset": [0, 1, 2, 3, 4], "value": values}


def test_columns_that_the_table_lacks_are_for_spark(uri: LakeUri) -> None:
    rows = rows_of(range(2)).append_column("headers", pa.array(["a", "b"]))
    with pytest.raises(UnfitError, match="no column headers"):
        land(Snapshot.of(uri), Append(rows), None, "{}")
    assert DeltaTable(str(uri)).version() == 0


@pytest.mark.parametrize("properties", [{}, {"delta.appendOnly": "true"}, {"delta.enableDeletionVectors": "true"}])
def test_a_table_that_is_only_appended_to_stays_quick(tmp_path: Path, properties: dict[str, str]) -> None:
    DeltaTable.create(str(tmp_path / "t"), SCHEMA, configuration=properties)
    uri = LakeUri(str(tmp_path / "t"))
    for number in range(3 * FILES_MIN):
        land(Snapshot.of(uri), Append(rows_of(range(number, number + 1))), Marker("app", number), "{}")
        keep_quick(Snapshot.of(uri), ())
        table = Snapshot.of(uri)
        assert len(table.files) <= FILES_MIN
        assert table.version - (table.checkpoint or 0) <= CHECKPOINT_EVERY
    assert sorted(row["offset"] for row in by_deltalake(str(uri))) == [*range(3 * FILES_MIN)]


def test_what_cannot_be_compacted_has_checkpoints_all_the_same(uri: LakeUri, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise UnfitError("a test")

    monkeypatch.setattr(Compaction, "over", refuses)
    for number in range(2 * FILES_MIN):
        land(Snapshot.of(uri), Append(rows_of(range(number, number + 1))), Marker("app", number), "{}")
        keep_quick(Snapshot.of(uri), ())
    assert Snapshot.of(uri).checkpoint == 2 * FILES_MIN
