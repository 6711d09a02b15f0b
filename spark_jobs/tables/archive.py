"""Reads the records of a batch from the archive (`append` beside it writes them)."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.uri import LakeUri
from include.pipeline_file import Source
from include.protocol.batch import Batch
from spark_jobs.changes.records import record_columns


def read_archive(spark: SparkSession, uri: LakeUri, source: Source, batch: Batch) -> DataFrame:
    """The records of a batch's ranges, from the archive instead of Kafka. Columns as `read_records`."""
    spans = [(r.topic, batch.topic_ids[r.topic], r.partition, r.start_offset, r.end_offset) for r in batch.ranges]
    within = reduce(or_, (_is_within(*span) for span in spans))
    records = spark.read.format("delta").load(str(uri)).where(within).dropDuplicates(["topic", "partition", "offset"])
    return records.select(*record_columns(source.wants_headers)).localCheckpoint(eager=False)


def _is_within(topic: str, topic_id: str, partition: int, start: int, end: int) -> Column:
    same = (F.col("topic") == topic) & (F.col("topic_id") == topic_id) & (F.col("partition") == partition)
    return same & (F.col("offset") >= start) & (F.col("offset") < end)
