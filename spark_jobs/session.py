"""Opens Spark sessions: one per attempt, on a Spark Connect server or as a driver of one's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from include.installation.jars import jar_paths
from include.installation.spark_server import driver_options
from include.settings import Settings

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


@contextmanager
def open_session(settings: Settings, remote: str | None, master: str | None) -> Iterator[SparkSession]:
    """A fresh session; closed at the end, with all that it holds on the server.

    Args:
        remote: `sc://host:port` of a Spark Connect server; else `master` for a driver in this process.
    """
    if remote is not None:
        spark = SparkSession.builder.remote(remote).create()
    else:
        # Python workers of a local master must be this environment's own Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("lakemark").master(master or "local[*]")
        for key, value in driver_options(jar_paths(settings.jars, "spark"), settings.home).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    try:
        for key, value in _SESSION.items():
            spark.conf.set(key, value)
        yield spark
    finally:
        spark.stop()


def java_home_for_driver(settings: Settings) -> Path:
    """JAVA_HOME for a driver in this process: the machine's own Java if it fits, or the wheel's."""
    from include.installation.java import find_java

    return find_java(settings.java, settings.home / "java").home
