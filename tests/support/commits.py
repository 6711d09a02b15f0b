"""Commits of attempts: made by a test itself, or watched and broken by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.engine.rows import collected
from spark_jobs.tables.contract import Spec, Write
from spark_jobs.tables.lane import LaneWrite, lane_write
from spark_jobs.tables.spark_write import SparkWrite
from spark_jobs.tables.writers import writer_of


def land(
    spark: SparkSession,
    uri: LakeUri,
    rows: DataFrame,
    spec: Spec,
    metadata: CommitMetadata,
    prunes: bool = False,
    by_lane: bool = False,
    seen: Snapshot | None = None,
) -> None:
    """Lands a batch's rows in a table, as an attempt does at its point.

    Args:
        by_lane: without a statement of Spark, which must do. seen: what the lane knows of the table since before.
    """
    writer = writer_of(spec)
    writer.ensure(spark, uri, spec)
    if by_lane:
        write: Write = lane_write(
            spark, seen or Snapshot.of(uri), KeptRows(lambda: rows, collected(rows)), spec, batch=metadata.batch
        )
    else:
        write = writer.landing(spark, uri, rows, spec, metadata.batch, prunes)
    write.commit(metadata, metadata.batch.batch_id)


def land_over(
    stray: DataFrame, spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, metadata: CommitMetadata
) -> None:
    """Lands a batch's rows where an attempt with another program has left its own, as an attempt does before the
    point: what that one did is taken back.

    Args:
        stray: what the other attempt has landed of the batch.
    """
    writer, log = writer_of(spec), TableLog.open(uri)
    assert log is not None
    writer.landing(spark, uri, stray, spec, metadata.batch, True).commit(metadata, None)
    write = writer.replacing(spark, uri, rows, spec, base=log.version, live=[metadata.batch])
    write.commit(metadata, metadata.batch.batch_id)


def at_every_commit(patched: pytest.MonkeyPatch, act: Callable[[Callable[[], None], CommitMetadata], None]) -> None:
    """Whatever an attempt commits is committed by `act`, which gets the real commit as a call."""

    def watched(engine: type[SparkWrite | LaneWrite]) -> None:
        real = engine.commit

        def commit(write: Write, metadata: CommitMetadata, marker: int | None, **more: Any) -> None:
            act(lambda: real(write, metadata, marker, **more), metadata)

        patched.setattr(engine, "commit", commit)

    for engine in (SparkWrite, LaneWrite):
        watched(engine)


def at_the_point(patched: pytest.MonkeyPatch, act: Callable[[Callable[[], None]], None]) -> None:
    """The same, for what is committed to a target."""

    def acted(committed: Callable[[], None], metadata: CommitMetadata) -> None:
        act(committed) if metadata.role == "target" else committed()

    at_every_commit(patched, acted)


def raising(error: Exception) -> Callable[[object], None]:
    """An act that commits nothing."""

    def act(committed: object) -> None:
        raise error

    return act
