"""Commits of Spark on a POSIX file system: each succeeds the one that its write has seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from spark_jobs.engine.failures import is_conflict
from spark_jobs.engine.marking import succeeding
from tests.support.world import World


def made(spark: SparkSession, table: Path, versions: int) -> None:
    """A table with versions 0 to `versions`, one row each."""
    for n in range(versions + 1):
        spark.sql(f"SELECT {n}L AS id").write.format("delta").mode("append").save(str(table))


def read(table: Path) -> TableLog:
    log = TableLog.open(LakeUri(str(table)))
    assert log is not None
    return log


def append(spark: SparkSession, table: Path) -> None:
    spark.sql("SELECT 99L AS id").write.format("delta").mode("append").save(str(table))


def nothing(spark: SparkSession, table: Path) -> None:
    """Nobody else is there."""


def lost(spark: SparkSession, table: Path) -> None:
    """And made again with as many versions."""
    shutil.rmtree(table)
    made(spark, table, 2)


@pytest.mark.parametrize(
    ("between", "lands"), [(nothing, True), (append, False), (lost, False)], ids=["nothing", "another commit", "lost"]
)
def test_i11_a_commit_that_names_what_it_succeeds_lands_there_or_nowhere(
    world: World, tmp_path: Path, between: Callable[[SparkSession, Path], None], lands: bool
) -> None:
    table = tmp_path / "t"
    with world.session() as spark:
        made(spark, table, 2)
        log = read(table)
        between(spark, table)
        newest = read(table).version
        with succeeding(spark, log.succession):
            if lands:
                append(spark, table)
            else:
                with pytest.raises(Exception, match="LAKEMARK_OVERTAKEN") as failure:
                    append(spark, table)
                assert is_conflict(failure.value)
    assert read(table).version == newest + lands


def test_a_write_that_has_begun_before_the_table_was_lost_leaves_no_gap_in_the_next_ones_log(
    world: World, tmp_path: Path
) -> None:
    """Delta alone would put its commit beside the new table's first ones, and nobody could read that table."""
    table, new = tmp_path / "t", tmp_path / "new"
    with world.session() as spark:
        made(spark, table, 5)
        made(spark, new, 1)
        rows = spark.sql("SELECT 99L AS id")
        # The write opens the table, and takes its rows from a function that replaces the log.
        swapped = tmp_path / "swapped"

        def swap(batches):
            import shutil as files

            if not swapped.exists():
                files.rmtree(table / "_delta_log")
                files.move(new / "_delta_log", table)
                swapped.touch()
            yield from batches

        with pytest.raises(Exception, match="LAKEMARK_OVERTAKEN"):
            rows.mapInPandas(swap, "id BIGINT").write.format("delta").mode("append").save(str(table))
    assert DeltaTable(table).version() == 1, "it can still be opened"
