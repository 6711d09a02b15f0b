"""A new server merges made-up batches by both engines, until somebody wants it for real ones."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_jobs.commands.warm_up import warm_up


def test_it_merges_by_both_engines_until_the_server_is_wanted(spark: SparkSession) -> None:
    asked = iter([False, False, True])
    assert warm_up(spark, 4, lambda: next(asked)) == 2


def test_it_merges_as_many_batches_as_it_was_told_to(spark: SparkSession) -> None:
    assert warm_up(spark, 1, lambda: False) == 1
