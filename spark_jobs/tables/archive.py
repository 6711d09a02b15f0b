"""Writes and reads the archive: every record as Kafka has it, kept longer than Kafka keeps it. One append per batch.

A reset that reads a topic again archives its records again. A reader of the archive takes each position once.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.uri import LakeUri
from include.pipeline_file import Source
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.records import HEADERS, record_columns
from spark_jobs.tables.writing import append_once, create_table

_COLUMNS = (
    "topic STRING, topic_id STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    f"headers {HEADERS}, generation INT, batch_id BIGINT"
)


def ensure_archive(spark: SparkSession, uri: LakeUri) -> None:
    """Creates the archive if there is none."""
    create_table(spark, uri, f"({_COLUMNS}) USING delta CLUSTER BY (topic, partition, offset)")


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


def read_archive(spark: SparkSession, uri: LakeUri, source: Source, batch: Batch) -> DataFrame:
    """The records of a batch's ranges, from the archive instead of Kafka. Columns as `read_records`."""
    spans = [(r.topic, batch.topic_ids[r.topic], r.partition, r.start_offset, r.end_offset) for r in batch.ranges]
    within = reduce(or_, (_is_within(*span) for span in spans))
    records = spark.read.format("delta").load(str(uri)).where(within).dropDuplicates(["topic", "partition", "offset"])
    return records.select(*record_columns(source.wants_headers)).localCheckpoint(eager=False)


def _is_within(topic: str, topic_id: str, partition: int, start: int, end: int) -> Column:
    same = (F.col("topic") == topic) & (F.col("topic_id") == topic_id) & (F.col("partition") == partition)
    return same & (F.col("offset") >= start) & (F.col("offset") < end)
