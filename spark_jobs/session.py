"""Opens Spark sessions: one per attempt, on a Spark Connect server or as a driver of one's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from include.installation import log_store
from include.installation.java import find_java
from include.installation.spark_server import driver_options
from include.protocol.errors import TerminalError
from include.settings import Settings
from include.spark_command import CLIENT_ONLY

# What every session of a job runs with, wherever it runs.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's 200 shuffle partitions and Delta's 50 snapshot partitions cost seconds per batch on small data.
    "spark.sql.shuffle.partitions": str(max(2, 2 * (os.cpu_count() or 1))),
    "spark.databricks.delta.snapshotPartitions": "2",
    # The JSON functions' results must not depend on a cluster's settings.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}

# Small work is over before compiled code has paid for its compiler, and one task does it: half the time (measured up to
# 10,000 changes; at 30,000 the two are equal).
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
_LARGE = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": _SESSION["spark.sql.shuffle.partitions"],
}
SMALL_RECORDS, SMALL_ROWS = 20_000, 100_000


@contextmanager
def open_session(
    settings: Settings, remote: str | None, master: str | None, submitted: bool = False
) -> Iterator[SparkSession]:
    """A fresh session; closed at the end, with all that it holds on the server.

    Args:
        remote: `sc://host:port` of a Spark Connect server; else `master` for a driver in this process.
        submitted: spark-submit has started this process and has set all options.
    """
    if submitted:
        spark = SparkSession.builder.getOrCreate()
    elif remote is not None:
        spark = SparkSession.builder.remote(remote).create()
    else:
        _prepare_own_driver(settings)
        builder = SparkSession.builder.appName("lakemark").master(master or "local[*]")
        for key, value in driver_options(settings.jars, settings.home).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    try:
        _refuse_unsafe_commits(spark)
        for key, value in _SESSION.items():
            spark.conf.set(key, value)
        yield spark
    finally:
        spark.stop()


def fit(spark: SparkSession, records: int, rows: int) -> None:
    """Sets the session up for a batch's work.

    Args:
        records: at most so many are read. rows: of the table that they are merged into.
    """
    settings = _SMALL if records <= SMALL_RECORDS and rows <= SMALL_ROWS else _LARGE
    for key, value in settings.items():
        spark.conf.set(key, value)


def _refuse_unsafe_commits(spark: SparkSession) -> None:
    """Two processes that commit at once must not replace each other's commit (see `log_store`)."""
    for key, value in log_store.OPTIONS.items():
        found = spark.conf.get(key, None)
        if found != value:
            raise TerminalError(
                what="this Spark commits to local Delta tables in a way that loses commits of other processes",
                where="its configuration",
                expected=f"{key}={value}, with Lakemark's compiled classes on the class path",
                found=f"{key}={found}",
                action="start it with `lakemark up`, or with the options of include/installation/spark_server.py",
            )


def _prepare_own_driver(settings: Settings) -> None:
    """Spark takes these from the process environment only."""
    os.environ["JAVA_HOME"] = str(find_java(settings.java, settings.home / "java").home)
    # Python workers of a local master must be this environment's own Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in CLIENT_ONLY:
        os.environ.pop(name, None)
