"""Writes the tables that batches only append to: the archive (every record as Kafka has it, kept longer than Kafka
keeps it) and the quarantine (records that are set aside). One append per batch.

A reset that reads a topic again archives its records again. A reader of the archive takes each position once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.uri import LakeUri
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.records import HEADERS
from spark_jobs.engine.failures import is_same_marker
from spark_jobs.engine.marking import marked_write, with_metadata
from spark_jobs.tables.creating import create_table

_ARCHIVE_COLUMNS = (
    "topic STRING, topic_id STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    f"headers {HEADERS}, generation INT, batch_id BIGINT"
)
_QUARANTINE_COLUMNS = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, reason STRING, "
    "generation INT, batch_id BIGINT, rules ARRAY<STRING>"
)


def append_once(spark: SparkSession, uri: LakeUri, rows: DataFrame, metadata: CommitMetadata, **options: str) -> None:
    """Appends a batch's rows under its marker. A second call for the batch does nothing."""
    try:
        with marked_write(spark, metadata):
            rows.write.format("delta").mode("append").options(**options).save(str(uri))
    except Exception as error:
        if not is_same_marker(error):  # another attempt has just appended the same rows
            raise


def ensure_archive(spark: SparkSession, uri: LakeUri) -> None:
    """Creates the archive if there is none."""
    create_table(spark, uri, f"({_ARCHIVE_COLUMNS}) USING delta CLUSTER BY (topic, partition, offset)")


def append_archive(spark: SparkSession, uri: LakeUri, records: DataFrame, metadata: CommitMetadata) -> None:
    """Appends a batch's records. A second call for the same batch does nothing.

    Args:
        records: as `read_records` returns them, with headers.
    """
    batch = metadata.batch
    ensure_archive(spark, uri)
    ids = F.create_map(*(F.lit(text) for pair in sorted(batch.topic_ids.items()) for text in pair))
    rows = records.select(
        "topic",
        ids[F.col("topic")].alias("topic_id"),
        *("partition", "offset", "timestamp", "key", "value", "headers"),
        F.lit(batch.generation).alias("generation"),
        F.lit(batch.batch_id).cast("bigint").alias("batch_id"),
    )
    append_once(spark, uri, rows, metadata)


def append_quarantine(spark: SparkSession, uri: LakeUri, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Appends the records that are set aside, each with its reason and every rule that it breaks. A second call for a
    batch does nothing."""
    create_table(spark, uri, f"({_QUARANTINE_COLUMNS}) USING delta")
    append_once(spark, uri, _set_aside(judged, metadata), metadata, mergeSchema="true")


def replace_quarantine(spark: SparkSession, uri: LakeUri, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Replaces what an earlier attempt at the batch set aside by what this attempt sets aside."""
    batch = metadata.batch
    of_batch = f"generation = {batch.generation} AND batch_id = {batch.batch_id}"
    with with_metadata(spark, metadata.dumps()):
        rows = _set_aside(judged, metadata).write.format("delta").mode("overwrite").option("replaceWhere", of_batch)
        rows.option("mergeSchema", "true").save(str(uri))


def _set_aside(judged: DataFrame, metadata: CommitMetadata) -> DataFrame:
    batch = metadata.batch
    return judged.where("reason IS NOT NULL").selectExpr(
        *("topic", "partition", "offset", "timestamp", "key", "value", "reason"),
        f"{batch.generation} AS generation",
        f"CAST({batch.batch_id} AS BIGINT) AS batch_id",
        "rules",
        *(["headers"] if "headers" in judged.columns else []),
    )
