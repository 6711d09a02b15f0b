"""Reduces a batch's judged records to what the target's MERGE gets, and says where all others went (I8)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from include.pipeline_file import Pipeline
from include.profile.tags import step_tag
from include.protocol.counts import SourceCounts
from include.protocol.errors import TerminalError
from spark_jobs.accepted import is_accepted, is_for, is_moved
from spark_jobs.decode import TRUNCATE
from spark_jobs.session import tagged
from spark_jobs.tables import prepared

_BROADCAST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Reduced:
    """A batch, reduced."""

    changes: DataFrame  # what the MERGE gets, computed and kept for the attempt
    counts: SourceCounts
    set_aside: str | None  # digest of the records for the quarantine, and why they are; None: there are none
    truncated: bool  # a truncate is among the changes


def reduce(judged: DataFrame, pipeline: Pipeline, read: int) -> Reduced:
    """What the MERGE gets, and counts.

    Args:
        judged: as `decode` gives them, kept for the attempt. read: how many records there are.

    Raises:
        TerminalError: the source was truncated, and the pipeline file does not say what that means.
    """
    with tagged(judged.sparkSession, step_tag("decode and split")):
        seen = _seen(judged, pipeline, read)
    if seen["truncates"]:
        raise TerminalError(
            what="the source table was truncated; nothing has landed, and the batch stays planned",
            where=f"{seen['truncates']:,} truncate events among the batch's records",
            expected="changes of rows",
            found="an event that empties the whole table",
            action="decide what that means for the target: in the pipeline file `change.truncates: apply` deletes what "
            "was there before it, `ignore` goes on without it; clear the merge task afterwards",
        )
    # Lazy: the count that follows computes and keeps them in one go.
    changes = prepared(judged.where(is_for(None)), pipeline).localCheckpoint(eager=False)
    no_keys = " AND ".join(f"`{name}` IS NULL" for name in pipeline.change.keys)
    with tagged(judged.sparkSession, step_tag("reduce")):
        given = changes.agg(F.count(F.lit(1)).alias("changes"), F.count_if(F.expr(no_keys)).alias("truncates")).first()
    routed = seen["routed"] + seen["moved_elsewhere"]
    counts = SourceCounts(
        read=read,
        quarantined=seen["quarantined"],
        filtered=seen["filtered"] + read - seen["records"],  # a transform leaves out whole records
        superseded=seen["accepted"] + seen["moved"] - routed - given["changes"],
        changes=given["changes"],
        added=seen["moved"] + seen["rows"] - seen["records"],
        routed=routed,
    )
    # Of a checkpoint Spark's planner knows no size, so a MERGE would shuffle and sort the whole target to join
    # it. A small source goes to every executor instead, taken to be as large as what it was decoded from.
    if given["changes"] * (seen["bytes"] or 0) <= _BROADCAST_BYTES * read:
        changes = F.broadcast(changes)
    truncated = pipeline.change.truncates == "apply" and bool(given["truncates"])
    return Reduced(changes, counts, seen["set_aside"], truncated)


def _seen(judged: DataFrame, pipeline: Pipeline, read: int) -> Row:
    """How many records went where; with it they are decoded, if they have not been."""
    elsewhere = is_accepted() & ~is_for(None)
    return judged.select(
        F.count_if(F.col("reason").isNotNull()).alias("quarantined"),
        F.count_if(F.col("reason").isNull() & F.col("filtered")).alias("filtered"),
        F.count_if(is_accepted()).alias("accepted"),
        F.count_if(elsewhere).alias("routed"),
        F.count_if(elsewhere & is_moved()).alias("moved_elsewhere"),
        F.count_if(is_moved()).alias("moved"),
        F.count(F.lit(1)).alias("rows"),
        (F.count_distinct("topic", "partition", "offset") if pipeline.transform else F.lit(read)).alias("records"),
        F.count_if(F.col("reason") == TRUNCATE).alias("truncates"),
        F.sum(F.length("value")).alias("bytes"),
        F.hex(
            F.bit_xor(F.when(F.col("reason").isNotNull(), F.xxhash64("topic", "partition", "offset", "reason")))
        ).alias("set_aside"),
    ).first()
