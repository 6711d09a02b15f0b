"""Old checkpoints of a table: which ones go, and that every version stays readable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.lake.log_cleaning import clean_log, spent
from include.lake.upkeep import keep_appended
from include.lake.uri import LakeUri


@pytest.mark.parametrize(
    ("checkpoints", "kept", "gone"),
    [
        ([], [], []),
        ([10], [], []),
        ([10, 20, 30], [], [20]),
        ([10, 20, 30], [20], []),
        ([90, 100, 110, 200, 207, 215], [], [110, 207]),
        ([215, 207, 200, 110, 100, 90], [207], [110]),
    ],
)
def test_of_old_checkpoints_one_of_every_hundred_versions_stays(
    checkpoints: list[int], kept: list[int], gone: list[int]
) -> None:
    assert spent(checkpoints, kept) == gone


def test_every_version_stays_readable(tmp_path: Path) -> None:
    table, log = tmp_path / "t", tmp_path / "t" / "_delta_log"
    for number in range(8):
        write_deltalake(str(table), pa.table({"n": [number]}), mode="append")
        DeltaTable(str(table)).create_checkpoint()
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert clean_log(LakeUri(str(table))) == 0, "they are young"
    for file in checkpoints[:-2]:
        os.utime(file, (time.time() - 4_000,) * 2)
    assert clean_log(LakeUri(str(table))) == 5
    assert sorted(log.glob("*.checkpoint.parquet")) == [checkpoints[0], *checkpoints[-2:]]
    for version in range(8):
        assert DeltaTable(str(table), version=version).to_pyarrow_table().num_rows == version + 1
    assert clean_log(LakeUri(str(tmp_path / "none"))) == 0


@pytest.mark.parametrize("keep", [clean_log, lambda uri: keep_appended(uri, 168)], ids=["by Spark", "by deltalake"])
def test_what_killed_writers_have_left_goes(tmp_path: Path, keep: Callable[[LakeUri], object]) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    log = tmp_path / "_delta_log"
    left = [f".{1:020}.json.3f6c.tmp", "_commit_3f6c.json.tmp"]
    old, young = [log / name for name in left], [log / f"{name}.tmp" for name in left]
    for file in (*old, *young):
        file.touch()
    for file in (*old, log / f"{0:020}.json"):
        os.utime(file, (time.time() - 2 * 86_400,) * 2)
    keep(LakeUri(str(tmp_path)))
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in young), "their writers may live"
    assert DeltaTable(str(tmp_path)).version() == 0
