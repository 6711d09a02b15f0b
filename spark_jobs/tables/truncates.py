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
from spark_jobs.tables.lineage import CHANGE_ORDER, is_ours, lineage_fields, order_of, order_values

_AT = f"{LINEAGE}_truncated_at"


def with_truncates(table: DataFrame, folded: DataFrame, spec: TableSpec, lineage: str, set_at: str) -> DataFrame:
    """The rows that MERGE gets, with truncates applied.

    Args:
        table: the target, in the version that the MERGE commits to. folded: as `scd1.folded` makes them; the row of a
            truncate has no keys. lineage: the type of the table's. set_at: the name of the column with the orders of
            partial columns.
    """
    keys = spec.keys
    of_row, of_change = F.expr(order_of(spec, lineage)), F.expr(order_of(spec))
    no_keys = reduce(and_, (F.col(spark_name(name)).isNull() for name in keys))
    own = folded.where(no_keys).agg(F.max(of_change).alias(_AT))
    known = table.where(no_keys).select(of_row.alias(_AT)).union(own).agg(F.max(_AT).alias(_AT))
    # A row of nulls if there was no truncate: nothing is older than that.
    changed = folded.crossJoin(F.broadcast(known))
    is_older = ~no_keys & F.coalesce(of_change < F.col(_AT), F.lit(False))
    of_changes = changed.select(*_deleted(spec, is_older, set_at))
    others = table.join(folded.select(*map(spark_name, keys)), list(keys), "left_anti").where(~no_keys)
    older = others.crossJoin(F.broadcast(own)).where(F.expr(is_ours()) & (of_row < F.col(_AT)))
    partial = spec.partial_columns
    empty = [F.struct(*(F.col(_AT).alias(name) for name in partial)).alias(set_at)] if partial else []
    whole = older.select(*(spark_name(column.name) for column in spec.columns), LINEAGE, *empty, _AT)
    return of_changes.unionByName(whole.select(*_deleted(spec, None, set_at)))


def _deleted(spec: TableSpec, is_older: Column | None, set_at: str) -> list[Column]:
    """The columns that MERGE gets, as if a delete at the truncate's place had come, too.

    Args:
        is_older: which rows come before the truncate; None: all of them.
    """
    keys, partial, gone = spec.keys, spec.partial_columns, _lineage_at_truncate(spec)
    ordering = {field.name for field in spec.order if field.of == "column"}
    when = F.lit(True) if is_older is None else is_older
    lineage = gone if is_older is None else F.when(when, gone).otherwise(F.col(LINEAGE))

    def value(name: str) -> Column:
        found = F.col(spark_name(name))
        if name in keys:
            return found
        if name in ordering:
            return F.when(when, F.col(f"{_AT}.{spark_name(name)}")).otherwise(found).alias(name)
        is_set_before = (
            F.coalesce(F.col(f"{set_at}.{spark_name(name)}") < F.col(_AT), F.lit(False)) if name in partial else when
        )
        return F.when(~(when | is_set_before), found).alias(name)

    columns = [value(column.name) for column in spec.columns]
    columns.append(lineage.alias(LINEAGE))
    if partial:
        at = {name: F.col(f"{set_at}.{spark_name(name)}") for name in partial}
        newer = {name: F.when(found < F.col(_AT), F.col(_AT)).otherwise(found) for name, found in at.items()}
        columns.append(F.struct(*(found.alias(name) for name, found in newer.items())).alias(set_at))
    return columns


def _lineage_at_truncate(spec: TableSpec) -> Column:
    """The lineage of a row that a truncate deletes, in the form of changes."""
    at = {path: F.col(f"{_AT}.{spark_name(name)}") for name, (path,) in order_values(spec).items()}
    kept = [value.alias(path[-1]) for path, value in at.items() if path[:-1] == (LINEAGE, CHANGE_ORDER)]

    def value(name: str) -> Column:
        if name == CHANGE_ORDER:
            return F.struct(*kept)
        own = F.lit(True) if name == "deleted" else F.col(f"{LINEAGE}.{name}")
        return at.get((LINEAGE, name), own)

    return F.struct(*(value(field.name).alias(field.name) for field in lineage_fields(spec)))
