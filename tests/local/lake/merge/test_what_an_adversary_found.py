"""Tables that made rows wrong, or stopped a pipeline, when a person tried to break the lane."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, Schema, write_deltalake

from include.lake.arrow import table_of
from include.lake.merge import compaction
from include.lake.merge.compaction import FILES_MIN, Compaction
from include.lake.merge.fitness import verify_fit
from include.lake.merge.landing import Marker, land
from include.lake.merge.patch import GONE, Patch
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upkeep import keep_quick
from include.lake.merge.upsert import Upsert
from include.lake.uri import LakeUri
from tests.support.readers import by_deltalake, by_duckdb, by_pyarrow

ORDER = ((("seq",),),)
_AFTER_9999 = 253_402_300_800_000_000  # microseconds: the year 10000
_YEAR_0 = -62_135_596_800_000_000 - 1


_OTHER_NAMES = ("name=eu", "seq=2026", "a*b", "a?b", "a{b,c}d")


def made(path: Path, **types: pa.DataType) -> LakeUri:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([*types.items(), ("seq", pa.int64()), ("name", pa.string())])
    DeltaTable.create(str(path), schema, configuration={"delta.enableDeletionVectors": "true"})
    return LakeUri(str(path))


def landed(uri: LakeUri, key: str, *rows: dict[str, Any]) -> None:
    table = Snapshot.of(uri)
    changes = pa.Table.from_pylist(list(rows), table.schema)
    land(table, Upsert(changes, (key,), ORDER, ("name",)), None, "{}")


@pytest.mark.parametrize(
    "folder", ["id=7", "a[b]c", *(pytest.param(name, marks=pytest.mark.slow) for name in _OTHER_NAMES)]
)
def test_the_name_of_a_folder_says_nothing_of_its_rows(tmp_path: Path, folder: str) -> None:
    """DuckDB takes `name=eu` for a partition whose rows have that value, and `a*b` for a pattern."""
    uri = made(tmp_path / folder / "t", id=pa.int64())
    landed(uri, "id", {"id": 1, "seq": 0, "name": "a decoy"})
    for decoy in ("aXb", "ab", "abc", "abd"):
        if not (tmp_path / decoy).exists():
            shutil.copytree(tmp_path / folder, tmp_path / decoy)
    for seq in range(1, 2 * FILES_MIN):
        landed(uri, "id", {"id": 1, "seq": seq, "name": f"n{seq}"}, {"id": 1000 + seq, "seq": seq, "name": "x"})
        keep_quick(Snapshot.of(uri), ("id",))
    last = 2 * FILES_MIN - 1
    expected = {1: (last, f"n{last}"), **{1000 + seq: (seq, "x") for seq in range(1, last + 1)}}
    found = by_deltalake(str(uri))
    assert len(found) == len(expected)
    assert {row["id"]: (row["seq"], row["name"]) for row in found} == expected


def test_readers_find_nan_which_is_above_all_other_numbers(tmp_path: Path) -> None:
    """A file's footer that leaves NaN out makes readers leave the file out."""
    uri = made(tmp_path / "t", id=pa.int64(), d=pa.float64(), part=pa.struct([("f", pa.float32()), ("n", pa.int32())]))
    rows = [(1, float("nan")), (2, 2.0)]
    landed(uri, "id", *({"id": n, "d": d, "part": {"f": d, "n": n}, "seq": 0, "name": "x"} for n, d in rows))
    [file] = DeltaTable(str(uri)).file_uris()
    group = pq.read_metadata(file).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    has_bounds = {column.path_in_schema: column.statistics is not None for column in columns}
    assert has_bounds == {"id": True, "d": False, "part.f": False, "part.n": True, "seq": True, "name": True}
    assert duckdb.sql(f"SELECT id FROM '{file}' WHERE d > 100").fetchall() == [(1,)]


def test_a_column_whose_name_is_that_of_a_field_lends_it_no_bounds(tmp_path: Path) -> None:
    uri = made(tmp_path / "t", id=pa.int64(), a=pa.struct([("b", pa.float64())]), **{"a.b": pa.float64()})
    rows = [(1, {"b": float("nan")}), (2, {"b": 1.0})]
    landed(uri, "id", *({"id": n, "a": a, "a.b": 1.0, "seq": 0, "name": "x"} for n, a in rows))
    [file] = DeltaTable(str(uri)).file_uris()
    assert duckdb.sql(f"SELECT id FROM '{file}' WHERE a.b > 100").fetchall() == [(1,)]


@pytest.mark.parametrize("foreign", [False, True], ids=["own files", "files with bounds without NaN"])
def test_a_key_that_is_nan_has_one_row(tmp_path: Path, foreign: bool) -> None:
    uri = made(tmp_path / "t", k=pa.float64())
    if foreign:
        rows = [{"k": float("nan"), "seq": 0, "name": "n0"}, {"k": 2.0, "seq": 0, "name": "n0"}]
        write_deltalake(str(uri), pa.Table.from_pylist(rows, Snapshot.of(uri).schema), mode="append")
    for seq in range(1, 4):
        landed(uri, "k", {"k": float("nan"), "seq": seq, "name": f"n{seq}"})
    assert [row["seq"] for row in by_pyarrow(str(uri)) if np.isnan(row["k"])] == [3]


@pytest.mark.parametrize("moment", [_AFTER_9999, _YEAR_0])
def test_moments_that_python_does_not_know_stop_nothing(tmp_path: Path, moment: int) -> None:
    uri = made(tmp_path / "t", at=pa.timestamp("us", "UTC"))
    odd = pa.array([moment, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    for seq in range(2 * FILES_MIN):
        changes = pa.table({"at": odd, "seq": [seq, seq], "name": [f"n{seq}"] * 2})
        land(Snapshot.of(uri), Upsert(changes, ("at",), ORDER, ("name",)), Marker("app", seq), "{}")
        keep_quick(Snapshot.of(uri), ("at",))
    table = Snapshot.of(uri)
    assert len(table.files) <= FILES_MIN
    sql = "SELECT arrow_cast(at, 'Int64') AS at, seq FROM t"
    found = QueryBuilder().register("t", DeltaTable(str(uri))).execute(sql).read_all()
    last = 2 * FILES_MIN - 1
    assert sorted(zip(*table_of(found).to_pydict().values(), strict=True)) == sorted([(moment, last), (0, last)])
    assert table.markers["app"] == last


@pytest.mark.parametrize("name", [".id", "[id", "a.b", "a b"])
def test_a_key_whose_name_arrow_takes_for_a_path(tmp_path: Path, name: str) -> None:
    uri = made(tmp_path / "t", **{name: pa.int64()})
    for seq in range(3):
        keys = pa.table({name: [1, 1, seq]})

        def compute(there: pa.Table, seq: int = seq) -> pa.Table:
            rows = [{name: key, "seq": seq, "name": f"{len(there)}", GONE: False} for key in sorted({1, seq})]
            return pa.Table.from_pylist(rows)

        land(Snapshot.of(uri), Patch(keys, (((name,),),), compute), None, "{}")
    assert sorted((row[name], row["seq"]) for row in by_duckdb(str(uri))) == [(0, 0), (1, 2), (2, 2)]
    landed_again = Compaction((name,)).over(Snapshot.of(uri))
    assert landed_again.actions == []  # too few files; but its order is put together


def test_a_column_that_no_file_has_yet_is_null_in_all_their_rows(tmp_path: Path) -> None:
    uri = made(tmp_path / "t", id=pa.int64())
    landed(uri, "id", {"id": 1, "seq": 0, "name": "x"}, {"id": 2, "seq": 0, "name": "y"})
    parts = pa.struct([("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    DeltaTable(str(uri)).alter.add_columns(
        Schema.from_arrow(pa.schema([("note", pa.string()), ("parts", parts)])).fields
    )
    table, seen = Snapshot.of(uri), []

    def compute(there: pa.Table) -> pa.Table:
        seen.extend(there.to_pylist())
        return pa.table({"id": [1], "seq": [1], "note": ["new"], GONE: [False]})

    land(table, Patch(pa.table({"id": [1]}), ((("id",),),), compute), None, "{}")
    assert seen == [{"id": 1, "seq": 0, "name": "x", "note": None, "parts": None}]
    found = {row["id"]: (row["seq"], row["name"], row.get("note"), row.get("parts")) for row in by_pyarrow(str(uri))}
    assert found == {1: (1, "x", "new", None), 2: (0, "y", None, None)}


def test_small_files_whose_rows_are_large_are_left_to_spark_and_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file holds a text once that each of its rows has, so no size of the file says what the rows take."""
    uri = made(tmp_path / "t", id=pa.int64())
    for n in range(FILES_MIN + 1):
        landed(uri, "id", *({"id": 10 * n + i, "seq": 0, "name": "x" * 100_000} for i in range(10)))
    DeltaTable(str(uri)).create_checkpoint()
    assert sum(file["size"] for file in Snapshot.of(uri).files.values()) < 100_000
    monkeypatch.setattr(compaction, "all_rows", None)
    assert Compaction(bytes_max=4_000_000).over(Snapshot.of(uri)).actions == []
    monkeypatch.undo()
    assert len(Compaction(bytes_max=12_000_000).over(Snapshot.of(uri)).actions) == 11 + 1  # of which each has 1 MB


def test_upkeep_that_goes_wrong_fails_no_batch_that_has_landed(tmp_path: Path) -> None:
    uri = made(tmp_path / "t", id=pa.int64())
    for n in range(FILES_MIN + 1):
        landed(uri, "id", {"id": n, "seq": 0, "name": "x"})
    [wrong] = keep_quick(Snapshot.of(uri), ("no such column",))
    assert "no such column" in wrong
    assert Snapshot.of(uri).checkpoint == FILES_MIN + 1  # what comes after it is done


def test_what_columns_and_properties_ask_for_is_kept(tmp_path: Path) -> None:
    """Spark writes a VARCHAR(3) as a text whose column has metadata, and takes TRUE for true."""
    uri = made(tmp_path / "t", id=pa.int64())
    table = Snapshot.of(uri)
    verify_fit(table)
    properties = dict(table.metadata["configuration"])
    table.metadata["configuration"] = {**properties, "delta.appendOnly": "TRUE"}
    with pytest.raises(UnfitError, match=r"delta\.appendOnly"):
        verify_fit(table)
    table.metadata["configuration"] = {**properties, "delta.enableChangeDataFeed": "True"}
    with pytest.raises(UnfitError, match="a change data feed"):
        verify_fit(table)
    table.metadata["configuration"] = {**properties, "delta.enableDeletionVectors": "TRUE"}
    verify_fit(table)
    limited = '"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"varchar(3)"}'
    table.metadata["schemaString"] = table.metadata["schemaString"].replace('"metadata":{}', limited)
    with pytest.raises(UnfitError, match="the column id, which the table computes, or checks, or fills"):
        verify_fit(table)


def test_columns_that_others_have_added_count_as_memory(tmp_path: Path) -> None:
    """Rows keep the values of columns that a batch does not know, so these come to memory. Spark has room for more."""
    uri = made(tmp_path / "t", id=pa.int64(), note=pa.string())
    landed(uri, "id", *({"id": n, "note": "x" * 200_000, "seq": 0, "name": "old"} for n in range(50)))
    table = Snapshot.of(uri)
    rows = pa.table({"id": pa.array(range(50), pa.int64()), "seq": pa.array([1] * 50), "name": ["new"] * 50})
    with pytest.raises(UnfitError, match="more than 3 MiB in the rows that are needed"):
        land(table, Upsert(rows, ("id",), ORDER, ("name",), bytes_max=3 << 20), None, "{}")
    land(table, Upsert(rows, ("id",), ORDER, ("name",), bytes_max=100 << 20), None, "{}")
    assert {(row["name"], len(row["note"])) for row in by_deltalake(str(uri))} == {("new", 200_000)}
