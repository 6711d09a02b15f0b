"""A new server merges made-up batches by both engines, until somebody wants it for real ones."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.commands.warm_up import warm_up


def test_it_merges_by_both_engines_until_the_server_is_wanted(spark: SparkSession, tmp_path: Path) -> None:
    asked = iter([False, False, True])
    assert warm_up(spark, 4, str(tmp_path), lambda: next(asked)) == 2


def test_it_merges_as_many_batches_as_it_was_told_to(spark: SparkSession, tmp_path: Path) -> None:
    assert warm_up(spark, 1, str(tmp_path), lambda: False) == 1
    assert list(tmp_path.iterdir()) == []
