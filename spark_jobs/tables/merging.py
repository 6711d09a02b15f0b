"""MERGEs a batch's changes into a table, as its kind does it."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE
from include.pipeline_file.table_spec import TableSpec
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.dispositions import changes_in
from spark_jobs.engine.marking import marked_write, settings_of, with_metadata
from spark_jobs.tables.contract import CHANGES, Merge
from spark_jobs.tables.creating import columns_of
from spark_jobs.tables.kinds import writer_of
from spark_jobs.tables.pruning import key_condition


def folded(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """A batch's rows, folded for a table's MERGE: see the kinds, `scd1` and `scd2`.

    Args:
        rows: as `dispositions` returns them for the table.
    """
    return writer_of(spec).folded(rows, spec)


def prepared(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """The rows that a table's MERGE gets from a batch. Args as for `folded`."""
    return changes_in(folded(rows, spec))


def merge_changes(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    spec: TableSpec,
    metadata: CommitMetadata,
    prunes: bool = False,
) -> bool:
    """MERGEs prepared changes into the target, only where they are newer than the target's rows (I9).

    A backfill's chunk also replaces a row from the very same record, which may be decoded differently today.

    Args:
        changes: kept by the attempt. prunes: the table is large, so it pays to look where the keys can be.

    Returns:
        True if this call's commit is the batch's; False if Delta found the marker there already.
    """
    again = metadata.batch.is_chunk
    merge = _merge(spark, uri, changes, spec, metadata=metadata, again=again, prunes=prunes)
    with marked_write(spark, metadata), settings_of(spark, merge.settings):
        return bool(spark.sql(merge.statement).collect())


def merge_beside(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    spec: TableSpec,
    metadata: CommitMetadata,
    replaces: bool,
    prunes: bool = False,
) -> None:
    """MERGEs prepared changes into a table beside the target: its history, or a route's.

    Args:
        replaces: the batch is there already, as an earlier attempt decoded it: what differs is written again (I11).
        changes, prunes: as for `merge_changes`.
    """
    again = replaces or metadata.batch.is_chunk
    merge = _merge(spark, uri, changes, spec, metadata=metadata, again=again, prunes=prunes)
    marked = with_metadata(spark, metadata.dumps()) if replaces else marked_write(spark, metadata)
    with marked, settings_of(spark, merge.settings):
        spark.sql(merge.statement).collect()


def _merge(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    spec: TableSpec,
    metadata: CommitMetadata,
    again: bool,
    prunes: bool,
) -> Merge:
    """The MERGE for a table's kind, with its source in place."""
    merge = writer_of(spec).merge(
        spark,
        uri,
        changes,
        spec,
        within=key_condition(changes, spec, "target") if prunes else None,
        lineage=columns_of(uri)[LINEAGE],
        again=metadata.batch if again else None,
    )
    merge.source.createOrReplaceTempView(CHANGES)
    return merge
