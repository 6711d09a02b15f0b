"""Old checkpoints of a table: which ones go, and that every version stays readable."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.lake.log_cleaning import clean_log, spent
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
