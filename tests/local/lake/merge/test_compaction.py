"""Small files become few, and nobody sees another row. Real Delta files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.merge.append import Append
from include.lake.merge.compaction import BYTES_MAX, FILES_MIN, Compaction, chosen
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upkeep import keep_quick
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from tests.local.lake.merge.test_upsert import a_row, by_deltalake, make_table, upsert

MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([MB] * (FILES_MIN - 1), 0),
        ([MB] * FILES_MIN, FILES_MIN),
        ([MB // 8] * FILES_MIN + [9 * MB], FILES_MIN + 1),  # together about as large
        ([MB // 8] * FILES_MIN + [12 * MB], FILES_MIN),
        ([MB] * 100, 64),  # no more than fit into memory
        ([20 * MB] * 100, 0),
    ],
)
def test_a_file_is_written_again_only_with_as_much_as_itself(sizes: list[int], merged: int) -> None:
    files = [{"path": str(n), "size": size} for n, size in enumerate(sizes)]
    assert len(chosen(files, 10, BYTES_MAX)) == merged
    assert chosen(({**file, "clusteringProvider": "liquid"} for file in files), 10, BYTES_MAX) == []


def test_no_more_rows_than_fit_into_memory_are_written_again() -> None:
    files = [{"path": str(n), "size": MB, "stats": '{"numRecords": 20000}'} for n in range(64)]
    assert [len(chosen(files, columns, BYTES_MAX)) for columns in (1, 10, 20, 26)] == [64, 50, 25, 0]


def test_a_busy_table_stays_small_and_has_the_same_rows(tmp_path: Path) -> None:
    uri, chance = LakeUri(str(tmp_path / "t")), random.Random(7)
    schema = make_table(str(uri), {"bigint": pa.int64()})
    truth: dict[tuple[Any, ...], str] = {}
    files_most = 0
    for number in range(3 * FILES_MIN):
        ids = chance.sample(range(400), 15)
        changes = pa.concat_tables([a_row(schema, id_, number) for id_ in ids])
        land(Snapshot.of(uri), upsert(changes, "bigint"), Marker("app", number), "{}")
        truth |= {(id_,): str(number) for id_ in ids}
        keep_quick(Snapshot.of(uri), ("bigint",))
        assert by_deltalake(str(uri), ["bigint"]) == truth
        files_most = max(files_most, len(Snapshot.of(uri).files))
    assert files_most <= FILES_MIN + 3
    table = DeltaTable(str(uri))
    operations = [entry["operation"] for entry in table.history()]
    assert operations.count("OPTIMIZE") >= 2
    assert table.transaction_version("app") == 3 * FILES_MIN - 1
    log = TableLog.open(uri)
    assert log is not None
    assert log.tail is not None
    assert log.version - log.tail.checkpoint <= 11


def test_what_fits_into_memory_is_told_before_it_is_compressed(tmp_path: Path) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    for number in range(FILES_MIN):
        row = a_row(schema, number, number).to_pylist()[0] | {"name": f"{number}" * 100_000}
        land(Snapshot.of(uri), Append(pa.Table.from_pylist([row], schema)), Marker("app", number), "{}")
    before = by_deltalake(str(uri), ["bigint"])
    assert max(file["size"] for file in Snapshot.of(uri).files.values()) < 5_000
    land(Snapshot.of(uri), Compaction(bytes_max=2_000_000), None, None)
    assert 5 < len(Snapshot.of(uri).files) < FILES_MIN
    assert by_deltalake(str(uri), ["bigint"]) == before
    assert Compaction(bytes_max=300_000).over(Snapshot.of(uri)).actions == []


def test_rows_that_are_gone_do_not_come_back_and_columns_added_since_are_null(tmp_path: Path) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    for number in range(FILES_MIN):
        rows = pa.concat_tables([a_row(schema, -number, number), a_row(schema, number // 2 + 1, number)])
        land(Snapshot.of(uri), upsert(rows, "bigint"), Marker("app", number), "{}")
    DeltaTable(str(uri)).alter.add_columns([_late()])
    version = land(Snapshot.of(uri), Compaction(("bigint",)), None, None)
    table = DeltaTable(str(uri), version=version)
    assert len(table.file_uris()) == 1
    truth = {(-n,): str(n) for n in range(FILES_MIN)} | {(n // 2 + 1,): str(n) for n in range(FILES_MIN)}
    assert pa.table(table.get_add_actions())["num_records"].to_pylist() == [len(truth)]
    assert by_deltalake(str(uri), ["bigint"]) == truth
    assert land(Snapshot.of(uri), Compaction(), None, None) == version  # there is nothing to do


def _late() -> Any:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    return Field("late", PrimitiveType("string"), nullable=True)
