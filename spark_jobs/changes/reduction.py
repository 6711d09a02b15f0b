"""Reduces a batch's judged records to the changes that a table's MERGE gets, and counts all others (I8)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import Pipeline
from include.profile.tags import step_tag
from include.protocol.counts import SourceCounts
from include.protocol.errors import TerminalError
from spark_jobs.changes.dispositions import (
    CHANGED,
    DIGEST,
    DISPOSITION,
    ELSEWHERE,
    FILTERED,
    MOVED,
    OF_DISPOSITION,
    ROWS,
    SET_ASIDE,
    TRUNCATED,
    changes_in,
    tallied,
)
from spark_jobs.changes.records import Volume
from spark_jobs.engine.rows import comparable, first_row
from spark_jobs.engine.session import tagged

_BROADCAST_BYTES = 32 * 1024 * 1024  # of a source that is sent to every executor
_HASHED_BYTES = 32 * 1024 * 1024  # of a source's partition that is hashed in memory while the target streams past it


@dataclass(frozen=True)
class Reduced:
    """A reduced batch."""

    changes: DataFrame  # what the MERGE gets, computed and kept for the attempt
    hinted: DataFrame  # the same, with a hint for a join that needs memory; `changes` itself if there is no hint
    counts: SourceCounts
    set_aside: str | None  # digest of the records for the quarantine and of their reasons; None: there are none
    truncated: bool  # a truncate is among the changes
    content: str | None = None  # digest of the changes, where it was asked for


@dataclass(frozen=True)
class _Tally:
    """The numbers of one disposition's rows."""

    left: int = 0  # after folding
    rows: int = 0  # before it
    moved: int = 0
    digest: int | None = None
    without_keys: int = 0
    content: int | None = None


def reduce_changes(
    judged: DataFrame, folded: DataFrame, pipeline: Pipeline, read: Volume, with_content: bool = False
) -> Reduced:
    """What a table's MERGE gets, and the counts.

    One pass over the judged records does all of it, so nothing else has to keep them. With a transform, which makes
    rows from records, the records are counted as well.

    Args:
        judged: as `decode` returns them. folded: the same, folded for the table's kind, not computed yet.
        read: the volume of the records that were read. Its bytes decide which hint `hinted` has.
        with_content: also make a digest of all changes.

    Raises:
        TerminalError: the source was truncated, and the pipeline file does not say what that means.
    """
    spark = judged.sparkSession
    with tagged(spark, step_tag("decode and reduce")):
        # Lazy: the count that follows computes and keeps them in one pass.
        rows = folded.localCheckpoint(eager=False)
        by_disposition = _by_disposition(rows, pipeline, with_content)
    dispositions = (CHANGED, ELSEWHERE, FILTERED, SET_ASIDE)
    changed, elsewhere, filtered, set_aside = (
        by_disposition.get(disposition, _Tally()) for disposition in dispositions
    )
    if truncates := by_disposition.get(TRUNCATED):
        raise TerminalError(
            what="the source table was truncated; nothing has landed, and the batch stays planned",
            where=f"{truncates.rows:,} truncate events among the batch's records",
            expected="changes of rows",
            found="an event that empties the whole table",
            action="decide what that means for the target: in the pipeline file `change.truncates: apply` deletes what "
            "was there before it, `ignore` goes on without it; clear the merge task with what follows it afterwards",
        )
    records = made = read.records  # one row each
    if pipeline.transform is not None:
        with tagged(spark, step_tag("count records")):
            counted = judged.agg(F.count(F.lit(1)), F.count_distinct("topic", "partition", "offset"))
            made, records = first_row(counted)
    counts = SourceCounts(
        read=read.records,
        quarantined=set_aside.rows,
        filtered=filtered.rows + read.records - records,  # a transform leaves out whole records
        superseded=changed.rows - changed.left,
        changes=changed.left,
        added=changed.moved + elsewhere.moved + filtered.moved + made - records,
        routed=elsewhere.rows,
    )
    changes = changes_in(rows)
    hinted = _hinted(changes, changed.left * read.bytes // max(1, read.records))
    digest = None if set_aside.digest is None else f"{set_aside.digest % 2**64:X}"
    truncated = pipeline.change.truncates == "apply" and changed.without_keys > 0
    content = None if changed.content is None else f"{changed.content % 2**64:X}"
    return Reduced(changes, hinted, counts=counts, set_aside=digest, truncated=truncated, content=content)


def _hinted(changes: DataFrame, size: int) -> DataFrame:
    """Adds a join hint: Spark's planner does not know a checkpoint's size, and so a MERGE without a hint would shuffle
    and sort the whole target.

    Args:
        size: bytes of the changes, estimated from the bytes of their records.
    """
    if size <= _BROADCAST_BYTES:
        return changes.hint("broadcast")
    partitions = int(str(changes.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    return changes.hint("shuffle_hash") if size <= _HASHED_BYTES * partitions else changes


def _by_disposition(folded: DataFrame, pipeline: Pipeline, with_content: bool) -> dict[str, _Tally]:
    no_keys = " AND ".join(f"{spark_name(name)} IS NULL" for name in pipeline.change.keys)
    found = folded.groupBy(DISPOSITION).agg(
        F.count(F.lit(1)).alias("left"),
        *tallied(),
        F.count_if(F.expr(no_keys)).alias("none"),
        (F.bit_xor(_row_digest(folded)) if with_content else F.lit(None)).alias("content"),
    )
    return {
        r[DISPOSITION]: _Tally(
            left=r["left"],
            rows=r[ROWS],
            moved=r[MOVED],
            digest=r[DIGEST],
            without_keys=r["none"],
            content=r["content"],
        )
        for r in found.collect()
    }


def _row_digest(folded: DataFrame) -> Column:
    """The digest of one change."""
    return F.xxhash64(*comparable(folded.drop(*OF_DISPOSITION).schema))
