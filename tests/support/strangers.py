"""What others do to a table between two batches: Spark, deltalake, and the lane's own upkeep. None of it changes what
the table shows, but `rows_deleted` and `rows_changed`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.lake.log_cleaning import clean_log
from include.lake.merge.compaction import Compaction
from include.lake.merge.landing import land
from include.lake.merge.snapshot import Snapshot
from include.lake.uri import LakeUri

Act = Callable[[SparkSession, str], None]  # a session, and the table's path


def _by_spark(statement: str, spark: SparkSession, path: str) -> None:
    spark.sql(statement.format(table=f"delta.`{path}`")).collect()


def _checkpoint_by_spark(spark: SparkSession, path: str) -> None:
    """Spark writes one with every commit of a table that asks for it."""
    for words in (
        "SET TBLPROPERTIES ('delta.checkpointInterval' = '1')",
        "UNSET TBLPROPERTIES ('delta.checkpointInterval')",
    ):
        spark.sql(f"ALTER TABLE delta.`{path}` {words}")


def _checkpoint_by_deltalake(_: SparkSession, path: str) -> None:
    DeltaTable(path).create_checkpoint()


def _compaction_by_lane(_: SparkSession, path: str) -> None:
    land(Snapshot.of(LakeUri(path)), Compaction(()), None, None)


def _clean_log(_: SparkSession, path: str) -> None:
    clean_log(LakeUri(path))


def _restored(spark: SparkSession, path: str) -> None:
    """Goes to the version before, and back."""
    version = DeltaTable(path).version()
    for to in (version - 1, version):
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {to}").collect()


def _vacuum(spark: SparkSession, path: str) -> None:
    """Removes all that the newest version does not need. deltalake refuses clustered tables."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # 10,000 tasks by default
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS").collect()


def rows_deleted(spark: SparkSession, path: str, case: int) -> None:
    _by_spark(f"DELETE FROM {{table}} WHERE case_id = {case}", spark, path)


def rows_changed(spark: SparkSession, path: str, case: int) -> None:
    _by_spark(f"UPDATE {{table}} SET name = 'by hand' WHERE case_id = {case}", spark, path)


ACTS: Mapping[str, Act] = {
    "OPTIMIZE": partial(_by_spark, "OPTIMIZE {table}"),
    "REORG": partial(_by_spark, "REORG TABLE {table} APPLY (PURGE)"),
    "compaction by the lane": _compaction_by_lane,
    "checkpoint by Spark": _checkpoint_by_spark,
    "checkpoint by deltalake": _checkpoint_by_deltalake,
    "clean log": _clean_log,
    "RESTORE": _restored,
    "VACUUM": _vacuum,
}


def act(spark: SparkSession, path: str, chance: Random) -> str:
    """Does one of these acts, and returns its name."""
    name = chance.choice([*ACTS])
    ACTS[name](spark, path)
    return name
