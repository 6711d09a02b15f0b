"""Reduces a batch's judged records to the changes that a table's MERGE gets, and counts all others (I8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import Pipeline
from include.profile.tags import step_tag
from include.protocol.batch import Batch
from include.protocol.counts import SourceCounts
from include.protocol.errors import TerminalError
from spark_jobs.changes import tallies
from spark_jobs.changes.dispositions import (
    CHANGED,
    DISPOSITION,
    ELSEWHERE,
    FILTERED,
    OF_DISPOSITION,
    SET_ASIDE,
    TRUNCATED,
    changes_in,
    digest_in_words,
)
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.changes.records import Volume
from spark_jobs.changes.tallies import Tally
from spark_jobs.engine.rows import collected, first_row, uploaded
from spark_jobs.engine.session import tagged

_BROADCAST_BYTES = 32 * 1024 * 1024  # of a source that is sent to every executor
_HASHED_BYTES = 32 * 1024 * 1024  # of a source's partition that is hashed in memory while the target streams past it


@dataclass(frozen=True)
class Reduced:
    """A reduced batch."""

    changes: KeptRows  # what the table gets
    counts: SourceCounts
    set_aside: str | None  # digest of the records for the quarantine and of their reasons; None: there are none
    truncated: bool  # a truncate is among the changes
    content: str | None = None  # digest of the changes, where it was asked for


def reduce_changes(
    judged: DataFrame,
    folded: DataFrame,
    pipeline: Pipeline,
    batch: Batch,
    read: Callable[[], Volume],
    with_content: bool = False,
    collects: bool = False,
    bytes_max: int | None = None,
) -> Reduced:
    """What a table gets, and the counts.

    One pass over the judged records does all of it, so nothing else has to keep them. With a transform, which makes
    rows from records, the records are counted as well.

    Args:
        judged: as `decode` returns them. folded: the same, folded for the table's kind, not computed yet.
        batch: it brings the changes. read: says the volume of the records that were read. It is called once they have
            been read, and the changes are collected or kept. with_content: also make a digest of all changes.
        collects: bring the changes to this process. bytes_max: of what it may bring; None: however many.

    Raises:
        TerminalError: the source was truncated, and the pipeline file does not say what that means. TooManyBytesError:
        the changes have more bytes.
    """
    spark = judged.sparkSession
    with tagged(spark, step_tag("decode and reduce")):
        if collects:
            changes, tally_of = _collected(folded, pipeline, with_content, bytes_max=bytes_max)
        else:
            changes, tally_of = _kept(folded, pipeline, with_content, read)
    dispositions = (CHANGED, ELSEWHERE, FILTERED, SET_ASIDE)
    changed, elsewhere, filtered, set_aside = (tally_of.get(name, tallies.NONE) for name in dispositions)
    if truncates := tally_of.get(TRUNCATED):
        raise TerminalError(
            what="the source table was truncated; nothing has landed, and the batch stays planned",
            where=f"{truncates.rows:,} truncate events among the batch's records",
            expected="changes of rows",
            found="an event that empties the whole table",
            action="decide what that means for the target: in the pipeline file `change.truncates: apply` deletes what "
            "was there before it, `ignore` goes on without it; clear the merge task with what follows it afterwards",
        )
    # A record is one row, and one more if its keys have changed.
    all_read = read().records
    records = made = all_read
    if pipeline.transform is not None:
        with tagged(spark, step_tag("count records")):
            counted = judged.agg(F.count(F.lit(1)), F.count_distinct("topic", "partition", "offset"))
            made, records = first_row(counted)
    counts = SourceCounts(
        read=all_read,
        quarantined=set_aside.rows,
        filtered=filtered.rows + all_read - records,  # a transform leaves out whole records
        superseded=changed.rows - changed.left,
        changes=changed.left,
        added=changed.moved + elsewhere.moved + filtered.moved + made - records,
        routed=elsewhere.rows,
    )
    digest = digest_in_words(set_aside.digest)
    truncated = pipeline.change.truncates == "apply" and changed.without_keys > 0
    content = digest_in_words(changed.content)
    return Reduced(changes.stamped(batch), counts=counts, set_aside=digest, truncated=truncated, content=content)


def _kept(
    folded: DataFrame, pipeline: Pipeline, with_content: bool, read: Callable[[], Volume]
) -> tuple[KeptRows, Mapping[str, Tally]]:
    """The changes, kept by Spark, and the tallies of all rows."""
    # Lazy: the count that follows computes and keeps them in one pass.
    rows = folded.localCheckpoint(eager=False)
    found = tallies.by_spark(rows, pipeline, with_content)
    volume = read()
    size = found.get(CHANGED, tallies.NONE).left * volume.bytes // max(1, volume.records)
    return KeptRows(lambda: changes_in(rows), make_hinted=_hint(folded.sparkSession, size)), found


def _collected(
    folded: DataFrame, pipeline: Pipeline, with_content: bool, bytes_max: int | None
) -> tuple[KeptRows, Mapping[str, Tally]]:
    """The changes, in this process, and the tallies of all rows."""
    rows = collected(tallies.with_content(folded) if with_content else folded, bytes_max)
    own = [name for name in rows.column_names if name not in (*OF_DISPOSITION, tallies.CONTENT)]
    is_change = pc.equal(rows[DISPOSITION], CHANGED)
    changes = rows.select(own) if pc.all(is_change).as_py() else rows.select(own).filter(is_change)

    def given_back() -> DataFrame:
        return uploaded(folded.sparkSession, changes, folded.select(*map(spark_name, own)).schema)

    return KeptRows(given_back, changes, lambda frame: frame.hint("broadcast")), tallies.of_arrow(rows, pipeline)


def _hint(spark: SparkSession, size: int) -> Callable[[DataFrame], DataFrame] | None:
    """Adds a join hint: Spark's planner does not know a checkpoint's size, and so a MERGE without a hint would shuffle
    and sort the whole target. None: too large for any.

    Args:
        size: bytes of the changes, estimated from the bytes of their records.
    """
    if size <= _BROADCAST_BYTES:
        return lambda changes: changes.hint("broadcast")
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return (lambda changes: changes.hint("shuffle_hash")) if size <= _HASHED_BYTES * partitions else None
