"""The changes of a batch that are to be merged: what was neither set aside nor filtered, whatever the table's kind."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline

ALL_TABLES = -1  # as a route: a change that all tables get
ABSENT = f"{LINEAGE}_absent"  # array<string>: columns that keep what they were; null: none
VALID_AT = f"{LINEAGE}_valid_at"  # since when the change holds; null without history
_PLACE = f"{LINEAGE}_place"


def is_accepted() -> Column:
    return F.col("reason").isNull() & ~F.col("filtered")


def is_moved() -> Column:
    """Whether a record is two changes: its row has another key now, and the one of the old key goes."""
    return is_accepted() & F.col("moved_from").isNotNull()


def is_for(route: int | None) -> Column:
    """Whether a record's changes are for a route's table, or (None) for the target."""
    mine = F.col("route").isNull() if route is None else F.col("route") == route
    return mine | (F.col("route") == ALL_TABLES)


def accepted_changes(judged: DataFrame, pipeline: Pipeline) -> DataFrame:
    """One row per change. Columns: the target's, `_lakemark`, ABSENT, VALID_AT; of a delete the keys only."""
    keys = pipeline.change.keys
    deleted = F.col(f"row.{LINEAGE}.deleted")

    def value(name: str) -> Column:
        found = F.col(f"row.`{name}`")
        if pipeline.has_deletes and name not in keys:
            found = F.when(~deleted, found)
        return found.alias(name)

    names = [column.name for column in pipeline.columns]
    own = F.col(f"row.{LINEAGE}").alias(LINEAGE)
    absent = F.when(~deleted & (F.size("absent") > 0), F.col("absent")).alias(ABSENT)
    valid_at = F.col("valid_at").alias(VALID_AT)
    changes = judged.where(is_accepted()).select(*map(value, names), own, absent, valid_at)
    if pipeline.transform is not None:
        changes = _one_per_order(changes, pipeline)
    if not pipeline.moves_keys:
        return changes

    def of_old_row(name: str) -> Column:
        found = F.col(f"row.`{name}`")
        return (F.col(f"moved_from.`{name}`") if name in keys else F.when(F.lit(False), found)).alias(name)

    gone = F.col(f"row.{LINEAGE}").withField("deleted", F.lit(True)).alias(LINEAGE)
    none = F.lit(None).cast("array<string>").alias(ABSENT)
    return changes.union(judged.where(is_moved()).select(*map(of_old_row, names), gone, none, valid_at))


def _one_per_order(changes: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Of rows that a transform has made of one record for one key, the first in the order of their JSON: any would do,
    as long as it is the same one always."""
    keys = [F.col(f"`{name}`") for name in pipeline.change.keys]
    by_content = Window.partitionBy(*keys, f"{LINEAGE}.change_order").orderBy(F.to_json(F.struct("*")))
    return changes.select("*", F.row_number().over(by_content).alias(_PLACE)).where(F.col(_PLACE) == 1).drop(_PLACE)
