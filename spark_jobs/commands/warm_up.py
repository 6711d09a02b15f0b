"""Warms up a new JVM: it decodes batches of a made-up pipeline and merges them into a scratch table, like real ones.

A first batch takes four to eight times as long as a warm one: the JVM loads all classes, and interprets them at first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from include.lake.merge.snapshot import Snapshot
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.changes.records import Volume, volume_columns, volume_of
from spark_jobs.changes.reduction import reduce_changes
from spark_jobs.engine.session import configure, fit
from spark_jobs.tables.contract import Write
from spark_jobs.tables.creating import ensure
from spark_jobs.tables.lane import lane_write
from spark_jobs.tables.merging import folded, landing

_RECORDS = 5_000  # of a batch; half of them change rows of the one before
_PIPELINE = {
    "name": "warm_up",
    "source": {
        "bootstrap_servers": "nowhere:9092",
        "topics": ["warm-up"],
        "schema": "id BIGINT, changed_at TIMESTAMP, amount DECIMAL(12, 2), note STRING, op STRING",
    },
    "change": {"keys": ["id"], "order_by": ["changed_at"], "delete_when": "op = 'd'"},
    "target": {"table": "lake://scratch/warm_up", "cluster_by": ["id"]},
}


def warm_up(spark: SparkSession, batches: int, scratch: str | None, is_wanted: Callable[[], bool]) -> int:
    """Merges small batches by the lane and large ones by Spark in turn. It leaves nothing behind, unless it is killed.

    Args:
        batches: how many at most. scratch: a folder for its table; None: the machine's. is_wanted: is asked before each
            of them; it ends when somebody else wants the JVM.

    Returns:
        How many it has merged.
    """
    configure(spark)
    pipeline = Pipeline.model_validate(_PIPELINE)
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=scratch) as folder:
        for number in range(batches):
            if is_wanted():
                return number
            is_small = number % 2 == 0
            fit(spark, _RECORDS, rows=0 if is_small else 10**9)
            _batch(spark, LakeUri(folder), pipeline, number, by_lane=is_small)
    return batches


def _batch(spark: SparkSession, table: LakeUri, pipeline: Pipeline, number: int, by_lane: bool) -> None:
    first = number * _RECORDS
    ranges = (OffsetRange("warm-up", 0, first, first + _RECORDS),)
    batch = Batch(pipeline.name, 1, number, ranges, topic_ids={"warm-up": "-"}, cluster_id="-")
    seen = Observation()
    records = _records(spark, first)
    records = records.observe(seen, *volume_columns()) if by_lane else records.localCheckpoint(eager=False)
    judged = decode(records, pipeline)
    spec = TableSpec.of_target(pipeline)
    rows = folded(dispositions(judged, pipeline), spec)
    ensure(spark, table, spec)
    reduced = reduce_changes(
        judged,
        rows,
        pipeline,
        batch,
        read=lambda: Volume(*seen.get.values()) if by_lane else volume_of(records),
        collects=by_lane,
    )
    metadata = CommitMetadata.of(batch, "target", reduced.counts, {}, attempt_id="warm-up", code_version="warm-up")
    write: Write
    if by_lane:
        write = lane_write(spark, Snapshot.of(table), reduced.changes, spec, batch=batch)
    else:
        write = landing(spark, table, reduced.changes.hinted, spec, batch=batch, prunes=False)
    write.commit(metadata, batch.batch_id)


def _records(spark: SparkSession, first: int) -> DataFrame:
    """Records in the form of `read_records`."""
    offset = F.col("id") + first
    fields = {
        "id": F.col("id") + first // 2,
        "changed_at": F.timestamp_seconds(offset + 1_767_225_600),
        "amount": (F.col("id") / 100).cast("decimal(12, 2)"),
        "note": F.concat(F.lit("note "), F.col("id")),
        "op": F.when(F.col("id") % 100 == 0, "d").otherwise("u"),
    }
    value = F.to_json(F.struct(*(column.alias(name) for name, column in fields.items())))
    return spark.range(_RECORDS).select(
        F.col("id").cast("string").cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.lit("warm-up").alias("topic"),
        F.lit(0).alias("partition"),
        offset.alias("offset"),
        F.timestamp_seconds(F.lit(1_767_225_600)).alias("timestamp"),
    )
