"""Puts a batch's marker into one Delta write (I2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_SUCCEEDS = "spark.lakemark.commit.succeeds"  # for `PosixLogStore`
_STAGED = "spark.lakemark.commit.staged"  # as above


@contextmanager
def marked(spark: SparkSession, app_id: str, version: int, metadata: str) -> Iterator[None]:
    """The one Delta write in the block lands with this marker and `userMetadata`.

    These are settings of the session, and they hold for every write in it. So they are set around one statement only,
    and an attempt has a session of its own.
    """
    with settings_of(spark, {_APP_ID: app_id, _VERSION: str(version), _METADATA: metadata}):
        yield


def with_metadata(spark: SparkSession, metadata: str) -> AbstractContextManager[None]:
    """The Delta writes in the block land with this `userMetadata` and no marker."""
    return settings_of(spark, {_METADATA: metadata})


def succeeding(spark: SparkSession, succession: str) -> AbstractContextManager[None]:
    """The one Delta write in the block lands as the next version (see `TableLog.succession`), or not at all. It then
    fails with an error that `failures.is_conflict` knows."""
    return settings_of(spark, {_SUCCEEDS: succession})


def staged(spark: SparkSession) -> AbstractContextManager[None]:
    """The one Delta write in the block makes no commit: it writes what the commit says beside the log, and fails with
    an error that `failures.staged_commit` knows."""
    return settings_of(spark, {_STAGED: "true"})


@contextmanager
def settings_of(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """In the block, the session has these settings."""
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            spark.conf.unset(key)
