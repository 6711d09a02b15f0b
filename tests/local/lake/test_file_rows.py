"""Rows of a few files of a table: the newest ones, and those that two versions do not share. Real Delta files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.lake import file_rows
from include.lake.delta_tables import open_table
from include.lake.file_rows import differing_rows, newest_rows
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Version 0: ids 0 to 3. 1: 4 to 7. 2: without 5. 3: a column more, and id 8."""
    path = str(tmp_path / "a table")
    for ids in (range(4), range(4, 8)):
        write_deltalake(path, pa.table({"id": list(ids)}), mode="append")
    DeltaTable(path).delete("id = 5")
    write_deltalake(path, pa.table({"id": [8], "name": ["x"]}), mode="append", schema_mode="merge")
    return path


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def test_the_newest_rows_come_from_as_few_files_as_are_needed(table: str) -> None:
    opened = open_table(LakeUri(table))
    assert opened is not None
    assert [ids(part) for part in newest_rows(opened, 1)] == [[], [8]]
    assert [ids(part) for part in newest_rows(opened, 2)] == [[], [8], [4, 6, 7]]
    assert [ids(part) for part in newest_rows(opened, 100)] == [[], [8], [4, 6, 7], [0, 1, 2, 3]]
    assert newest_rows(opened, 2)[-1].column("name").to_pylist() == [None] * 3


def test_rows_that_differ_between_two_versions(table: str) -> None:
    uri = LakeUri(table)
    assert [ids(rows) for rows in differing_rows(uri, 0, 1)] == [[], [4, 5, 6, 7]]
    assert [ids(rows) for rows in differing_rows(uri, 1, 2)] == [[4, 5, 6, 7], [4, 6, 7]]  # the others were copied
    assert [ids(rows) for rows in differing_rows(uri, 2, 3)] == [[], [8]]
    assert [ids(rows) for rows in differing_rows(uri, 3, 3)] == [[], []]


def test_what_cannot_be_shown_says_why(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = LakeUri(table)
    with pytest.raises(TerminalError, match="version 9; found 3 is the newest"):
        differing_rows(uri, 0, 9)
    monkeypatch.setattr(file_rows, "_BYTES_MAX", 1)
    monkeypatch.setattr(file_rows._Look, "__init__", _little)
    with pytest.raises(TerminalError, match="choose versions that are closer"):
        differing_rows(uri, 0, 1)
    opened = DeltaTable(table)
    opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    monkeypatch.undo()
    with pytest.raises(TerminalError, match="VACUUM has removed it"):
        differing_rows(uri, 1, 2)


def _little(self: file_rows._Look, uri: LakeUri, version: int, schema: pa.Schema) -> None:
    self.uri, self.version, self.schema, self.bytes_left = uri, version, schema, 1


def test_texts_may_be_of_any_kind_that_arrow_has(tmp_path: Path) -> None:
    """delta-rs writes views where others write texts, and Arrow cannot filter those."""
    path = str(tmp_path / "views")
    for number in (1, 2):
        texts = pa.array([f"a{number}", "b"], pa.string_view())
        write_deltalake(path, pa.table({"id": [number, -number], "name": texts}), mode="append")
    before, after = differing_rows(LakeUri(path), 0, 1)
    assert (ids(before), ids(after)) == ([], [-2, 2])
    assert after.column("name").to_pylist() == ["a2", "b"]
