"""Sorts a batch's judged records: changes to merge, and all others (I8). The same for every kind of table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.engine.rows import first_row
from spark_jobs.formats.contract import ABSENT

ALL_TABLES = -1  # as a route: a change that all tables get
TRUNCATE = "a truncate event"  # as a reason: the pipeline file does not say what to do with it

DISPOSITION = f"{LINEAGE}_disposition"
CHANGED, ELSEWHERE, FILTERED, SET_ASIDE, TRUNCATED = "changed", "elsewhere", "filtered", "set aside", "truncated"
VALID_AT = f"{LINEAGE}_valid_at"  # from when the change is valid; null without history

# Numbers of each row. They add up when several rows become one.
ROWS = f"{LINEAGE}_rows"  # bigint: how many rows there were
MOVED = f"{LINEAGE}_moved"  # bigint: how many of their records are two changes
_MOVE = f"{LINEAGE}_move"  # if a change has new keys: struct of the old keys, the row's places, and valid_at
DIGEST = f"{LINEAGE}_digest"  # bigint: digest of the records for the quarantine and of their reasons; null: none
OF_DISPOSITION = (DISPOSITION, ROWS, MOVED, DIGEST)  # columns that no table has


def is_for(route: int | None) -> Column:
    """Whether a record's changes are for a route's table, or (None) for the target."""
    mine = F.col("route").isNull() if route is None else F.col("route") == route
    return mine | (F.col("route") == ALL_TABLES)


def dispositions(judged: DataFrame, pipeline: Pipeline, mine: Column | None = None) -> DataFrame:
    """One row for each change to a table, and one for each record that brings the table no change.

    A record whose row has another key now is two changes: the record itself, and the delete of the old key.

    Args:
        mine: whether a record's changes are for the table; default: for the target.

    Columns: DISPOSITION, ROWS, MOVED, DIGEST. A change also has the target's columns (a delete only the keys, and what
    orders it), `_lakemark`, ABSENT and VALID_AT; they are null in all other rows.
    """
    reason, row, places = F.col("reason"), F.col("row"), pipeline.placing_values
    always = {*pipeline.change.keys, *places}
    disposition = (
        F.when(reason == TRUNCATE, TRUNCATED)
        .when(reason.isNotNull(), SET_ASIDE)
        .when(F.col("filtered"), FILTERED)
        .when(is_for(None) if mine is None else mine, CHANGED)
        .otherwise(ELSEWHERE)
    )
    found = judged.select("*", disposition.alias(DISPOSITION))
    is_change, deleted = F.col(DISPOSITION) == CHANGED, row[LINEAGE]["deleted"]
    # The old row is deleted, whatever a filter says about the new one.
    is_moved = F.col(DISPOSITION).isin(CHANGED, ELSEWHERE, FILTERED) & F.col("moved_from").isNotNull()

    def value(name: str) -> Column:
        kept = is_change if name in always or not pipeline.has_deletes else is_change & ~deleted
        return F.when(kept, row[name]).alias(name)

    names = [column.name for column in pipeline.columns]
    moved = F.struct(
        F.col("moved_from").alias("keys"),
        F.struct(row[LINEAGE].alias(LINEAGE), *(row[name].alias(name) for name in places)).alias("row"),
        F.col("valid_at").alias("at"),
    )
    digest = digest_of_record()
    own = found.select(
        DISPOSITION,
        *map(value, names),
        F.when(is_change, row[LINEAGE]).alias(LINEAGE),
        F.when(is_change & ~deleted & (F.size("absent") > 0), F.col("absent")).alias(ABSENT),
        F.when(is_change, F.col("valid_at")).alias(VALID_AT),
        F.lit(1).cast("bigint").alias(ROWS),
        is_moved.cast("bigint").alias(MOVED),
        F.when(reason.isNotNull(), digest).alias(DIGEST),
        *([F.when(is_moved, moved).alias(_MOVE)] if pipeline.moves_keys else []),
    )
    return _with_old_rows(own, pipeline) if pipeline.moves_keys else own


def set_aside_in(judged: DataFrame) -> DataFrame:
    """The records for the quarantine, and why. Args: judged: as `decode` returns it."""
    more = ["rules", *(["headers"] if "headers" in judged.columns else [])]
    return judged.where("reason IS NOT NULL").select(
        "topic", "partition", "offset", "timestamp", "key", "value", "reason", *more
    )


def accepted_in(found: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Each change, with the table's columns and `_lakemark`. Args: found: as `dispositions` returns it."""
    columns = [spark_name(column.name) for column in pipeline.columns]
    return found.where(F.col(DISPOSITION) == CHANGED).select(*columns, LINEAGE)


def digest_of_rows(rows: DataFrame) -> str | None:
    """The digest of rows, in whichever order; None: there are none."""
    found = first_row(rows.agg(F.bit_xor(F.xxhash64(*map(spark_name, rows.columns)))))[0]
    return digest_in_words(None if found is None else int(found))


def digest_of_record() -> Column:
    """The digest of a record for the quarantine, and of its reason."""
    return F.xxhash64("topic", "partition", "offset", "reason")


def digest_in_words(digest: int | None) -> str | None:
    """The digest of all records or changes together, as a commit says it; None: there are none."""
    return None if digest is None else f"{digest % 2**64:X}"


def _with_old_rows(changes: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds the deletes of rows whose key changed. The old row may be in another table than the new row."""
    old = {name: F.col(_MOVE)["row"][name] for name in pipeline.placing_values}
    old |= {key: F.col(_MOVE)["keys"][key] for key in pipeline.change.keys}
    old |= {
        DISPOSITION: F.lit(CHANGED),
        LINEAGE: F.col(_MOVE)["row"][LINEAGE].withField("deleted", F.lit(True)),
        VALID_AT: F.col(_MOVE)["at"],
        ROWS: F.col(ROWS),
        MOVED: F.lit(0).cast("bigint"),
    }
    columns = [name for name in changes.columns if name != _MOVE]
    types = {field.name: field.dataType for field in changes.schema}
    own = F.struct(*map(spark_name, columns))
    gone = F.struct(*(old.get(name, F.lit(None)).cast(types[name]).alias(name) for name in columns))
    return changes.select(F.inline(F.array_compact(F.array(own, F.when(F.col(_MOVE).isNotNull(), gone)))))


def tallied() -> list[Column]:
    """Adds up the numbers of rows that become one row."""
    return [F.sum(ROWS).alias(ROWS), F.sum(MOVED).alias(MOVED), F.bit_xor(DIGEST).alias(DIGEST)]


def changes_in(folded: DataFrame) -> DataFrame:
    """The rows that MERGE gets, from folded rows."""
    return folded.where(F.col(DISPOSITION) == CHANGED).drop(*OF_DISPOSITION)
