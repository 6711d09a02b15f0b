"""Data files that somebody has damaged: whoever reads the table is told so, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.lake.data_files import file_of_int96, harmed_file, lost_file
from include.lake.delta_tables import OpenedTable, all_rows, open_table, query, uri_of
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged

Reader = Callable[[OpenedTable], object]
DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "no Parquet": lambda file: file.write_bytes(b"no parquet"),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "garbled": lambda file: file.write_bytes(b"\xff" * file.stat().st_size),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}
READERS: dict[str, Reader] = {
    "query": lambda table: query(table, "select * from t where id % 2 = 1"),
    "all rows": all_rows,
    "footers": file_of_int96,
}


@pytest.fixture
def table(tmp_path: Path) -> OpenedTable:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for n in range(2):
        write_deltalake(tmp_path, pa.table({"id": [2 * n, 2 * n + 1], "at": [at, at]}), mode="append")
    opened = open_table(LakeUri(str(tmp_path)))
    assert opened is not None
    return opened


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_data_file_is_named_as_damage(table: OpenedTable, tmp_path: Path, damage: str, reader: str) -> None:
    DAMAGE[damage](sorted(tmp_path.glob("*.parquet"))[0])
    with pytest.raises(TableDamaged, match="a table cannot be read") as failure:
        READERS[reader](table)
    assert failure.value.where == str(tmp_path)


def test_a_version_that_lacks_a_file_is_told_by_its_name(table: OpenedTable, tmp_path: Path) -> None:
    assert lost_file(uri_of(table), 1) is None
    file = sorted(tmp_path.glob("*.parquet"))[0]
    file.unlink()
    assert lost_file(uri_of(table), 1) == file.name


@pytest.mark.parametrize("damage", ["missing", "empty", "cut short", "a folder"])
def test_a_file_that_is_not_as_it_was_written_is_found_without_reading_it(
    table: OpenedTable, tmp_path: Path, damage: str
) -> None:
    assert harmed_file(table) is None
    file = sorted(tmp_path.glob("*.parquet"))[0]
    DAMAGE[damage](file)
    assert file.name in (harmed_file(table) or "")
