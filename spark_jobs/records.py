"""Reads exactly a batch's records: its offset ranges from Kafka, or a replay's copy of them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.kafka_options import spark_options
from include.pipeline_file import Source
from include.protocol.batch import Batch

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
# All that is read is there already. Spark asks for a partition's end behind a fetch that waits for new records there:
# by Kafka's default half a second for every partition that a core reads.
BOUNDED = {"kafka.fetch.max.wait.ms": "10", "kafka.max.poll.records": "5000"}


@dataclass(frozen=True)
class Volume:
    """How much was read."""

    records: int
    bytes: int  # of their values


def volume_of(records: DataFrame) -> Volume:
    """Of records that are kept for the attempt: with it they are read, if they have not been."""
    found = records.agg(F.count(F.lit(1)), F.coalesce(F.sum(F.length("value")), F.lit(0))).first()
    return Volume(*found)


def read_records(spark: SparkSession, source: Source, batch: Batch, with_headers: bool) -> DataFrame:
    """The records of the batch's ranges, read by the first who asks and kept for the attempt.

    Columns: key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp; with headers an
    array of structs of key string and value binary. Only committed records are read; fewer than the ranges' width is
    right where Kafka leaves gaps by design.
    """
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    starts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    ends: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for r in batch.ranges:
        partitions[r.topic].append(r.partition)
        starts[r.topic][str(r.partition)] = r.start_offset
        ends[r.topic][str(r.partition)] = r.end_offset
    return (
        spark.read.format("kafka")
        .options(**BOUNDED, **spark_options(source))
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(with_headers).lower())
        .load()
        .select(*record_columns(with_headers))
        # Everything later comes from this one read, and a lost client's copy goes with its session (a persisted
        # frame would stay in the server's cache). Lazy: the count computes and keeps it in one go.
        .localCheckpoint(eager=False)
    )


def read_frozen(spark: SparkSession, path: str, source: Source, batch: Batch) -> DataFrame:
    """The records of a replay's chunk, from the copy that was made when it was planned. Columns as `read_records`."""
    records = spark.read.format("delta").load(path).where(F.col("chunk") == batch.batch_id)
    if source.wants_headers and "headers" not in records.columns:  # set aside before the file asked for them
        records = records.withColumn("headers", F.lit(None).cast(HEADERS))
    return records.select(*record_columns(source.wants_headers)).localCheckpoint(eager=False)


def record_columns(with_headers: bool) -> list[str]:
    return ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if with_headers else [])]
