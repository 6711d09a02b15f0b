"""Opens Spark sessions: one per attempt, on a Spark Connect server or with a driver in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from include.installation import spark_classes
from include.installation.java import find_java
from include.installation.spark_server import driver_options
from include.jobs.spark_command import CLIENT_ONLY
from include.lake.stores import spark_options
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.settings import Settings

BACKGROUND_POOL = "background"  # see `include.installation.spark_server`
# Settings of every session of a job, wherever it runs.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # Delta's 50 snapshot partitions cost seconds per batch. One partition is fast enough for the log of some ten
    # thousand files.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The results of the JSON functions must not depend on a cluster's settings.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # `${...}` in a statement stays as it is. (No value of a record is ever in a statement; this is a second guard.)
    "spark.sql.variable.substitute": "false",
    # The text of a statement goes into Spark's event log and UI, with the options of Kafka's source. Spark redacts
    # options by their names there, but not in that text, where protobuf quotes them.
    "spark.sql.redaction.string.regex": r"""(?s)sasl\.jaas\.config"\s*value:\s*"(?:\\.|[^"\\])*+\"""",
    # By default Spark writes INT96. Arrow reads that as nanoseconds of 64 bits, which end in the year 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark counts days before 1582-10-15 by ISO 8601, as other engines do.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}

# For a Spark Connect server that does not answer. The client waits ten minutes, as by default, but tries again at least
# every second, not every sixty. A restarted server reports an unknown session at the first call, and the next attempt
# begins.
_RETRIES_MAX, _BACKOFF_MAX_MS = 600, 1_000

# Settings for a batch. (docs/performance.md has the figures.)
_USUAL = {
    "spark.sql.adaptive.enabled": "true",
    # Partitions that Spark combines must still fit into a hash table in memory (`spark_jobs.changes.reduction`).
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
# A small batch ends sooner if it is planned once, and not again at every stage.
_SMALL = {**_USUAL, "spark.sql.adaptive.enabled": "false"}
_SMALL_RECORDS = 50_000
# A small batch into a small table ends before compiled code has paid for its compilation.
_SMALLEST = {**_SMALL, "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_SMALLEST_RECORDS, _SMALLEST_ROWS = 20_000, 100_000
_PARTITION_RECORDS, _PARTITION_ROWS, _PARTITIONS_MAX = 25_000, 250_000, 2_000  # of a shuffle


@contextmanager
def open_session(
    settings: Settings, remote: str | None, master: str | None, submitted: bool = False, in_background: bool = False
) -> Iterator[SparkSession]:
    """A new session. It is closed at the end, with everything that it holds on the server.

    Args:
        remote: `sc://host:port` of a Spark Connect server; None: a driver in this process, on `master`.
        submitted: spark-submit has started this process and has set all options.
        in_background: live batches of the same server go before it.
    """
    with ExitStack() as stack:
        if submitted:
            spark = SparkSession.builder.getOrCreate()
        elif remote is not None:
            spark = _connected(remote, settings.spark_token, stack)
        else:
            spark = _own_driver(settings, master)
        stack.callback(spark.stop)
        try:
            _refuse_unsafe_commits(spark, settings.lake)
        except PySparkException as error:
            if "authenticat" not in str(error).lower():
                raise
            raise TerminalError(
                what="the Spark server does not take this client",
                where=str(remote).partition(";")[0],
                expected="the token that the server was started with",
                found="another one" if settings.spark_token else "none",
                action="set LAKEMARK_SPARK_TOKEN here to the server's token; a server of `lakemark up` has its own in "
                "$LAKEMARK_HOME/spark/token, and is found there by itself if the variable is not set",
            ) from error
        configure(spark)
        if in_background:
            spark.conf.set("spark.scheduler.pool", BACKGROUND_POOL)
        yield spark


def _connected(remote: str, token: str | None, stack: ExitStack) -> SparkSession:
    # A submitted job must also start where Connect's packages (grpc, pandas) are not installed.
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from spark_jobs.engine.connection import Connection

    connection = stack.enter_context(Connection(remote, token))
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # else functions would be those of a driver in this process
    spark = ConnectSession.builder.channelBuilder(connection).create()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES_MAX, max_backoff=_BACKOFF_MAX_MS)])
    return spark  # type: ignore[return-value]  # the two kinds of sessions share their methods, not a class


def _own_driver(settings: Settings, master: str | None) -> SparkSession:
    prepare_own_driver(settings)
    builder = SparkSession.builder.appName("lakemark").master(master or "local[*]")
    for key, value in driver_options(settings.jars, settings.home, settings.lake).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def configure(spark: SparkSession) -> None:
    """Sets what every session of a job needs."""
    _set_all(spark, _SESSION)


def fit(spark: SparkSession, records: int, rows: int) -> None:
    """Sets the session up for a batch of this size.

    Args:
        records: the most that may be read. rows: of the largest table that they are merged into.
    """
    if records > _SMALL_RECORDS:
        # If its source is too large to be broadcast, a MERGE shuffles the table as well.
        partitions = records // _PARTITION_RECORDS + rows // _PARTITION_ROWS
        chosen = {**_USUAL, "spark.sql.shuffle.partitions": str(min(max(2, partitions), _PARTITIONS_MAX))}
    elif records > _SMALLEST_RECORDS or rows > _SMALLEST_ROWS:
        chosen = {**_SMALL, "spark.sql.shuffle.partitions": "2"}
    else:
        chosen = {**_SMALLEST, "spark.sql.shuffle.partitions": "1"}
    # Every batch sets all of them: a session may run many batches. Unsetting one would bring back Spark's own default
    # (two hundred partitions), not the value that this Spark was started with.
    _set_all(spark, chosen)


def _set_all(spark: SparkSession, values: Mapping[str, str]) -> None:
    """Sets all of them, on a Connect server by one call: each costs a small batch some milliseconds."""
    if hasattr(spark.conf, "_set_all"):
        spark.conf._set_all(dict(values), silent=False)
        return
    for key, value in values.items():
        spark.conf.set(key, value)


def lives(spark: SparkSession) -> bool:
    """Whether a session can be used again: a server that has been restarted knows none of those from before. Waits for
    a server that is away, as every call does."""
    try:
        spark.conf.get("spark.sql.session.timeZone")
    except PySparkException:
        return False
    return True


@contextmanager
def tagged(spark: SparkSession | None, tag: str) -> Iterator[None]:
    """Spark's event log shows this tag at every job that begins in the block."""
    if spark is None:
        yield
        return
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def _refuse_unsafe_commits(spark: SparkSession, lake: LakeUri) -> None:
    """Refuses a Spark in which two processes could replace each other's commits (see `spark_classes`)."""
    of_lake = {key: value for key, value in spark_options(lake).items() if "logStore" in key}
    for key, value in {**spark_classes.OPTIONS, **of_lake}.items():
        found = spark.conf.get(key, None)
        if found != value:
            raise TerminalError(
                what="this Spark may replace commits of other processes to Delta tables",
                where="its configuration",
                expected=f"{key}={value}, with Lakemark's compiled classes on the class path",
                found=f"{key}={found}",
                action="start it with `lakemark up`, or with the options of include/installation/spark_server.py",
            )


def prepare_own_driver(settings: Settings) -> None:
    """Sets what Spark reads from the process environment only."""
    os.environ["JAVA_HOME"] = str(find_java(settings.java, settings.home / "java").home)
    # Python workers of a local master must be this environment's own Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in CLIENT_ONLY:
        os.environ.pop(name, None)
