"""Writes the tables that changes are merged into, as each table's kind does it (`scd1`, `scd2`)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from include.lake.sql import spark_table
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from spark_jobs.changes.dispositions import changes_in
from spark_jobs.changes.stamp import stamped
from spark_jobs.tables.contract import CHANGES, Merge, Spec, Write
from spark_jobs.tables.creating import columns_of, ensure
from spark_jobs.tables.difference import DIFFERENCE, difference, difference_statement
from spark_jobs.tables.kinds import kind_of
from spark_jobs.tables.pruning import key_condition
from spark_jobs.tables.spark_write import SparkWrite

__all__ = ["ensure", "folded", "landing", "prepared", "replacing"]


def folded(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """A batch's rows, folded for a table's MERGE: see the kinds, `scd1` and `scd2`.

    Args:
        rows: as `dispositions` returns them for the table.
    """
    return kind_of(spec).folded(rows, spec)


def prepared(rows: DataFrame, spec: TableSpec, batch: Batch) -> DataFrame:
    """The rows that a table's MERGE gets from a batch. Args as for `folded`."""
    return stamped(changes_in(folded(rows, spec)), batch)


def landing(spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, batch: Batch, prunes: bool) -> Write:
    """MERGEs prepared changes, only where they are newer than the table's rows (I9). See `contract.Writer`.

    A backfill's chunk also replaces a row from the very same record, which may be decoded differently today.
    """
    assert isinstance(spec, TableSpec)
    within = key_condition(rows, spec, "target") if prunes else None
    again, lineage = batch if batch.is_chunk else None, columns_of(uri)[LINEAGE]
    merge = kind_of(spec).merge(spark, uri, rows, spec, lineage=lineage, again=again, within=within)
    return _write(spark, uri, merge, CHANGES)


def replacing(
    spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, base: int | None, live: Sequence[Batch]
) -> Write:
    """MERGEs the difference between the table and what it must be. See `contract.Writer`."""
    assert isinstance(spec, TableSpec)
    head = spark.read.format("delta").load(str(uri))
    empty = head.limit(0)
    before = empty
    if base is not None:
        # Columns that were added since are null there.
        old = spark.read.format("delta").option("versionAsOf", base).load(str(uri))
        before = empty.unionByName(old, allowMissingColumns=True)
    lineage = columns_of(uri)[LINEAGE]
    wanted = kind_of(spec).applied(before, rows, spec, lineage)
    found = difference(head, wanted, spec, lineage)
    statement = difference_statement(spark_table(uri), head.columns, spec, lineage)
    return _write(spark, uri, Merge(found, statement), DIFFERENCE)


def _write(spark: SparkSession, uri: LakeUri, merge: Merge, view: str) -> Write:
    def run() -> None:
        merge.source.createOrReplaceTempView(view)
        spark.sql(merge.statement).collect()

    return SparkWrite(spark, uri, run, merge.settings)
