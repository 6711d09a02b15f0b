"""Rows of a few files of a table, where deletion vectors hide some."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.lake.file_rows import differing_rows
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged, TerminalError


def test_a_deletion_vector_that_is_gone_is_told_like_a_data_file_that_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri, name = LakeUri(str(tmp_path / "t")), f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"INSERT INTO {name} SELECT explode(sequence(1, 10)) AS id")
    for id_ in (1, 2):
        spark.sql(f"DELETE FROM {name} WHERE id = {id_}")
    before, after = differing_rows(uri, 2, 3)
    assert (before.column("id").to_pylist(), after.column("id").to_pylist()) == ([2], [])
    oldest, _ = sorted((tmp_path / "t").glob("deletion_vector_*.bin"), key=lambda file: file.stat().st_mtime)
    oldest.rename(tmp_path / "moved")
    with pytest.raises(TerminalError, match="choose newer versions"):
        differing_rows(uri, 2, 3)
    (tmp_path / "moved").rename(oldest)
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    newest = max((tmp_path / "t").glob("deletion_vector_*.bin"), key=lambda file: file.stat().st_mtime)
    newest.unlink()
    with pytest.raises(TableDamaged, match="a table cannot be read"):
        differing_rows(uri, 3, 4)
