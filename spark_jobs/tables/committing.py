"""Commits a prepared write, with the batch's marker in the same commit (I2)."""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import SparkSession

from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.engine.marking import marked, settings_of, succeeding, with_metadata
from spark_jobs.tables.contract import Write


def commit(
    spark: SparkSession, write: Write, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None
) -> None:
    """Runs the write.

    Args:
        marker: under the batch's appId. Delta skips the write, without an error, if the table has it or a higher one.
            None: the table has it already, and it stays.
        succeeds: what the write was decided on (`TableLog.succession`): it lands right after that, or fails. None:
            wherever Delta finds no conflict.
    """
    with ExitStack() as stack:
        if marker is None:
            stack.enter_context(with_metadata(spark, metadata.dumps()))
        else:
            stack.enter_context(marked(spark, metadata.batch.app_id, marker, metadata.dumps()))
        if succeeds is not None:
            stack.enter_context(succeeding(spark, succeeds))
        stack.enter_context(settings_of(spark, write.settings))
        write.run()
