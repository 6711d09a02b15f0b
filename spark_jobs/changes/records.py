"""Reads exactly a batch's records: its offset ranges from Kafka, or a replay's copy of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.uri import LakeUri
from include.participants.records import HEADERS
from include.pipeline_file import Source
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from include.sources.kafka_options import spark_options
from spark_jobs.engine.rows import first_row
from spark_jobs.formats.moments import within_years

# In the error of Spark's Kafka source about, for instance, a timestamp in nanoseconds.
_TIMESTAMP_TOO_LARGE = "overflows when converting to Spark's microsecond-precision"
# Everything to read is in Kafka already. But before Spark sees a partition's end, a fetch waits there for new records:
# half a second by Kafka's default, for every partition that a core reads.
BOUNDED = {"kafka.fetch.max.wait.ms": "10", "kafka.max.poll.records": "5000"}


@dataclass(frozen=True)
class Volume:
    """How much was read."""

    records: int
    bytes: int  # of their values


def volume_of(records: DataFrame) -> Volume:
    """The volume of records that are kept for the attempt. This reads them, if they have not been read yet."""
    return Volume(*first_row(records.agg(*volume_columns())))


def volume_columns() -> tuple[Column, Column]:
    """The aggregates that make a Volume, in its order."""
    return F.count(F.lit(1)).alias("records"), F.coalesce(F.sum(F.length("value")), F.lit(0)).alias("bytes")


def read_records(spark: SparkSession, source: Source, batch: Batch, with_headers: bool, keeps: bool) -> DataFrame:
    """The records of the batch's ranges, read at their first use.

    Columns: key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp; with headers
    also `headers`, an array of structs of key string and value binary. Only committed records are read. There may be
    fewer of them than the ranges' width, because Kafka leaves gaps by design.

    Args:
        keeps: they are kept for the attempt. Else every use reads them anew.
    """
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    starts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    ends: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for r in batch.ranges:
        partitions[r.topic].append(r.partition)
        starts[r.topic][str(r.partition)] = r.start_offset
        ends[r.topic][str(r.partition)] = r.end_offset
    records = (
        spark.read.format("kafka")
        .options(**BOUNDED, **spark_options(source))
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(with_headers).lower())
        .load()
        .select(*_with_sane_timestamp(with_headers))
    )
    # The copy of a lost client ends with its session (a persisted frame would stay in the server's cache). Lazy: the
    # first use computes it and keeps it in one pass.
    return records.localCheckpoint(eager=False) if keeps else records


def is_of_a_timestamp(error: Exception) -> bool:
    """Whether Spark's Kafka source failed at a record's timestamp: see `read_by_librdkafka`."""
    return _TIMESTAMP_TOO_LARGE in str(error)


def read_by_librdkafka(spark: SparkSession, source: Source, batch: Batch, with_headers: bool) -> DataFrame:
    """Reads as `read_records` does, but in Python workers. Spark's Kafka source fails at a record whose timestamp is
    too large, even if nobody uses the timestamp. Here such a timestamp is null."""
    ranges = [(r.topic, r.partition, r.start_offset, r.end_offset) for r in batch.ranges]
    fields = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
    schema = f"{fields}, headers {HEADERS}" if with_headers else fields

    def read(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from include.sources.kafka_records import RECORD_SCHEMA, records_of

        spans = (OffsetRange(**row) for chunk in chunks for row in chunk.to_pylist())
        for found in chain.from_iterable(records_of(source, [span]) for span in spans):
            table = pa.Table.from_pylist([record._asdict() for record in found], RECORD_SCHEMA)
            yield from table.select(record_columns(with_headers)).to_batches()

    asked = spark.createDataFrame(ranges, "topic STRING, partition INT, start_offset BIGINT, end_offset BIGINT")
    return asked.repartition(len(ranges)).mapInArrow(read, schema).localCheckpoint(eager=False)


def _with_sane_timestamp(with_headers: bool) -> list[Column]:
    """Kafka's fields. Timestamps that readers of tables cannot show are null, such as microseconds read as millis."""
    return [within_years(F.col(n)).alias(n) if n == "timestamp" else F.col(n) for n in record_columns(with_headers)]


def read_frozen(spark: SparkSession, uri: LakeUri, source: Source, batch: Batch) -> DataFrame:
    """The records of a replay's chunk, from the copy that its planning made. Columns as `read_records`."""
    records = spark.read.format("delta").load(str(uri)).where(F.col("chunk") == batch.batch_id)
    if source.wants_headers and "headers" not in records.columns:  # set aside before the file asked for them
        records = records.withColumn("headers", F.lit(None).cast(HEADERS))
    return records.select(*record_columns(source.wants_headers)).localCheckpoint(eager=False)


def record_columns(with_headers: bool) -> list[str]:
    return ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if with_headers else [])]


def no_records(spark: SparkSession, with_headers: bool) -> DataFrame:
    """An empty frame with the columns of `read_records`."""
    types = {"key": "BINARY", "value": "BINARY", "topic": "STRING", "partition": "INT", "offset": "BIGINT"}
    types |= {"timestamp": "TIMESTAMP", "headers": HEADERS}
    schema = ", ".join(f"{name} {types[name]}" for name in record_columns(with_headers))
    return spark.createDataFrame([], schema)
