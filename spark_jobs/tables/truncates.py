"""Applies truncates: a truncate deletes every row that comes before it in the change order, whenever the row arrives.

The row without keys remembers the newest truncate; it is hidden, as tombstones are. For every key a truncate is a
delete at the truncate's place in the order. Older rows of the table become tombstones, and nothing is left of an older
change that comes later (I9).
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.tables.lineage import lineage_fields

_AT = f"{LINEAGE}_truncated_at"


def with_truncates(table: DataFrame, folded: DataFrame, spec: TableSpec, set_at: str) -> DataFrame:
    """The rows that MERGE gets, with truncates applied.

    Args:
        table: the target, in the version that the MERGE commits to. folded: as `scd1.folded` makes them; the row of a
            truncate has no keys. set_at: the name of the column with the orders of partial columns.
    """
    keys = spec.keys
    order = F.col(f"{LINEAGE}.change_order")
    no_keys = reduce(and_, (F.col(spark_name(name)).isNull() for name in keys))
    own = folded.where(no_keys).agg(F.max(order).alias(_AT))
    known = table.where(no_keys).select(order.alias(_AT)).union(own).agg(F.max(_AT).alias(_AT))
    # A row of nulls if there was no truncate: nothing is older than that.
    changed = folded.crossJoin(F.broadcast(known))
    is_older = ~no_keys & F.coalesce(order < F.col(_AT), F.lit(False))
    of_changes = changed.select(*_deleted(spec, is_older, set_at))
    others = table.join(folded.select(*map(spark_name, keys)), list(keys), "left_anti").where(~no_keys)
    older = others.crossJoin(F.broadcast(own)).where(order < F.col(_AT))
    partial = spec.partial_columns
    empty = [F.struct(*(F.col(_AT).alias(name) for name in partial)).alias(set_at)] if partial else []
    whole = older.select(*(spark_name(column.name) for column in spec.columns), _base_of(spec), *empty, _AT)
    return of_changes.unionByName(whole.select(*_deleted(spec, F.lit(True), set_at)))


def _base_of(spec: TableSpec) -> Column:
    """The lineage of the table's row, without the fields that the table's kind adds."""
    names = [field.name for field in lineage_fields(spec)]
    return F.struct(*(F.col(f"{LINEAGE}.{name}").alias(name) for name in names)).alias(LINEAGE)


def _deleted(spec: TableSpec, when: Column, set_at: str) -> list[Column]:
    """The columns that MERGE gets, as if a delete at the truncate's place had come, too."""
    keys, partial = spec.keys, spec.partial_columns
    gone = F.col(LINEAGE).withField("deleted", F.lit(True)).withField("change_order", F.col(_AT))

    def value(name: str) -> Column:
        found = F.col(spark_name(name))
        if name in keys:
            return found
        is_set_before = (
            F.coalesce(F.col(f"{set_at}.{spark_name(name)}") < F.col(_AT), F.lit(False)) if name in partial else when
        )
        return F.when(~(when | is_set_before), found).alias(name)

    columns = [value(column.name) for column in spec.columns]
    columns.append(F.when(when, gone).otherwise(F.col(LINEAGE)).alias(LINEAGE))
    if partial:
        at = {name: F.col(f"{set_at}.{spark_name(name)}") for name in partial}
        newer = {name: F.when(found < F.col(_AT), F.col(_AT)).otherwise(found) for name, found in at.items()}
        columns.append(F.struct(*(found.alias(name) for name, found in newer.items())).alias(set_at))
    return columns
