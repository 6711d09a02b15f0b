"""Data files that somebody has damaged: whoever reads the table is told so, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.lake.damage import damaged
from include.lake.data_files import file_of_int96, harmed_file, lost_file
from include.lake.delta_tables import OpenedTable, all_rows, open_table, query, uri_of
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged, TerminalError
from tests.support.mounts import another_user, open_folder

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


@pytest.mark.parametrize("earlier", [True, False], ids=["after an earlier checkpoint", "of the whole log"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_that_the_commits_make_needless_may_go(
    table: OpenedTable, tmp_path: Path, damage: str, earlier: bool
) -> None:
    log = tmp_path / "_delta_log"
    if earlier:
        table.create_checkpoint()
        write_deltalake(tmp_path, pa.table({"id": [9], "at": [datetime(2026, 1, 1, tzinfo=UTC)]}), mode="append")
        (log / f"{0:020}.json").unlink()  # by log clean-up
        table.update_incremental()
    table.create_checkpoint()
    rows = all_rows(table)
    checkpoint = sorted(log.glob("*.checkpoint.parquet"))[-1]
    DAMAGE[damage](checkpoint)
    with pytest.raises(TableDamaged) as failure:
        with suppress(UnfitError):  # it is not there
            Snapshot.of(uri_of(table))
        open_table(uri_of(table))
    advice = f"move `{checkpoint.name}`, if it is there, and `_last_checkpoint` out of {log}: its commits say the same"
    assert failure.value.action.endswith(advice)
    for file in (checkpoint, log / "_last_checkpoint"):
        if file.exists():
            file.rename(tmp_path.with_name(f"{tmp_path.name}.{file.name}"))
    again = open_table(uri_of(table))
    assert again is not None
    assert all_rows(again).sort_by("id") == rows.sort_by("id")


@pytest.mark.parametrize("earlier", [True, False], ids=["after an earlier checkpoint", "of the whole log"])
def test_a_name_of_a_checkpoint_that_never_was_may_go(table: OpenedTable, tmp_path: Path, earlier: bool) -> None:
    hint = tmp_path / "_delta_log/_last_checkpoint"
    if earlier:
        table.create_checkpoint()
        write_deltalake(tmp_path, pa.table({"id": [9], "at": [datetime(2026, 1, 1, tzinfo=UTC)]}), mode="append")
        (tmp_path / f"_delta_log/{0:020}.json").unlink()  # by log clean-up
    hint.write_text('{"version":999,"size":3}')
    with pytest.raises(
        TableDamaged, match=f"{999:020}.checkpoint.parquet., if it is there, and ._last_checkpoint. out"
    ):
        open_table(uri_of(table))
    hint.unlink()
    assert open_table(uri_of(table)) is not None


def test_a_checkpoint_whose_commits_are_gone_is_needed(table: OpenedTable, tmp_path: Path) -> None:
    table.create_checkpoint()
    log = tmp_path / "_delta_log"
    (log / f"{0:020}.json").unlink()
    next(log.glob("*.checkpoint.parquet")).write_bytes(b"")
    with pytest.raises(TableDamaged, match="move its folder away"):
        open_table(uri_of(table))


@pytest.mark.parametrize("closed", ["the folder", "the log", "a commit"])
def test_a_table_that_a_process_may_not_read_is_not_taken_for_damaged(closed: str) -> None:
    """Nobody is to move its folder away."""
    with open_folder() as folder:
        write_deltalake(folder / "t", pa.table({"id": [1]}))
        log = folder / "t" / "_delta_log"
        {"the folder": log.parent, "the log": log, "a commit": log / f"{0:020}.json"}[closed].chmod(0o000)
        with another_user(), pytest.raises(TerminalError, match="the lake's file system refuses") as failure:
            open_table(LakeUri(str(folder / "t")))
    assert not isinstance(failure.value, TableDamaged)
    assert "user id 65534" in failure.value.expected


@pytest.mark.parametrize("form", ['"parts": 2', '"v2Checkpoint": {"path": "x"}'])
def test_of_a_checkpoint_of_another_form_nothing_is_advised(table: OpenedTable, tmp_path: Path, form: str) -> None:
    """It lies under another name, and what is damaged may be another file."""
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text(f'{{"version": 1, {form}}}')
    assert "move its folder away" in damaged(uri_of(table), "a data file is gone").action
