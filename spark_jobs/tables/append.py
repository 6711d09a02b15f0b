"""Writes the tables that records are only added to: the archive and the quarantine. Every row names its batch.

A reset that reads a topic again archives its records again. A reader of the archive takes each position once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from include.lake.sql import spark_name, spark_text
from include.lake.uri import LakeUri
from include.pipeline_file.table_spec import AppendSpec
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from spark_jobs.tables.contract import Spec, Write
from spark_jobs.tables.creating import create_table, definitions
from spark_jobs.tables.spark_write import SparkWrite


def ensure(spark: SparkSession, uri: LakeUri, spec: Spec) -> None:
    """See `contract.Writer`."""
    clustered = f" CLUSTER BY ({', '.join(map(spark_name, spec.cluster_by))})" if spec.cluster_by else ""
    create_table(spark, uri, f"({definitions(spec.columns)}) USING delta{clustered}")


def landing(spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, batch: Batch, prunes: bool) -> Write:
    """See `contract.Writer`."""
    assert isinstance(spec, AppendSpec)
    if batch.is_chunk:
        return _rows_of(spark, uri, _own(rows, spec), spec, batches=[batch])
    writer = _own(rows, spec).write.format("delta").mode("append").option("mergeSchema", str(spec.grows).lower())
    return SparkWrite(spark, uri, lambda: writer.save(str(uri)))


def replacing(
    spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, base: int | None, live: Sequence[Batch]
) -> Write:
    """See `contract.Writer`."""
    assert isinstance(spec, AppendSpec)
    found = _own(rows, spec)
    if base is not None:
        before = spark.read.format("delta").option("versionAsOf", base).load(str(uri)).where(_is_of(live, spec))
        found = before.unionByName(found, allowMissingColumns=True)
    return _rows_of(spark, uri, found, spec, batches=live)


def _rows_of(
    spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: AppendSpec, batches: Sequence[Batch]
) -> SparkWrite:
    """Replaces the rows of these batches by others of theirs."""
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", _is_of(batches, spec))
    writer = writer.option("mergeSchema", str(spec.grows).lower())
    return SparkWrite(spark, uri, lambda: writer.save(str(uri)))


def _is_of(batches: Sequence[Batch], spec: AppendSpec) -> str:
    """The condition on rows of these batches. A landing numbers its batches as its pipeline does, and may have written
    the same archive: so the key of a batch alone does not tell."""
    within = "" if spec.place is None else f"{spark_name(spec.place)}."
    ranges = {_is_within(batch, r, within) for batch in batches for r in batch.ranges}
    return " OR ".join(sorted(ranges)) or "false"


def _is_within(batch: Batch, r: OffsetRange, within: str) -> str:
    """Args: within: the struct of a row that says it, with a dot."""
    return (
        f"({within}generation = {batch.generation} AND {within}batch_id = {batch.batch_id} "
        f"AND {within}topic = {spark_text(r.topic)} AND {within}`partition` = {r.partition} "
        f"AND {within}`offset` >= {r.start_offset} AND {within}`offset` < {r.end_offset})"
    )


def own_columns(names: Sequence[str], spec: AppendSpec) -> list[str]:
    """The table's columns, and with `grows` all others that the rows bring. Args: names: of the rows' columns."""
    own = [column.name for column in spec.columns]
    return [*own, *(name for name in names if name not in own)] if spec.grows else own


def _own(rows: DataFrame, spec: AppendSpec) -> DataFrame:
    return rows.select(*map(spark_name, own_columns(rows.columns, spec)))
