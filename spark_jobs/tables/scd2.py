"""Tables of history: one row per state of a key, with `valid_from`, `valid_to` and `is_current` (SCD type 2).

Every change is a row of its own, with its own change order. What readers see is computed from all rows of the key. So a
late change is put where it belongs, and any order of batches makes the same table (I9). Consecutive changes that leave
all tracked columns as they are make one state: the last of their rows shows it, from the time of the first one. Rows
that show nothing (deletes, and changes within a state) have no `valid_from`.

The MERGE's source reads the table itself, in the version that the MERGE commits to: Delta uses the transaction's
snapshot for every scan of the table (`OptimisticTransaction.getDeltaScanGenerator`), and its search for conflicts
includes what was read (`test_a_merge_whose_source_reads_the_target...`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from include.lake.merge.order import Value
from include.lake.merge.patch import GONE
from include.lake.sql import spark_name, spark_table
from include.lake.uri import LakeUri
from include.pipeline_file import IS_CURRENT, LINEAGE, VALID_FROM, VALID_TO
from include.pipeline_file.schema_change import ABSENT_FIELD, KNOWS, struct_fields
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from spark_jobs.changes.dispositions import DISPOSITION, OF_DISPOSITION, VALID_AT, tallied
from spark_jobs.formats.contract import ABSENT
from spark_jobs.tables.contract import CHANGES, Merge
from spark_jobs.tables.lineage import (
    VALID_AT_FIELD,
    in_form,
    is_ours,
    knows,
    lineage_column,
    lineage_fields,
    lineage_in,
    order_of,
    order_values,
    valid_at,
    valid_at_fields,
)

_OWN, _WAS, _BEGINS = (f"{LINEAGE}_{name}" for name in ("own", "was", "begins"))
_NEXT = f"{LINEAGE}_next"
_WHOLE, _ORDER = f"{LINEAGE}_whole", f"{LINEAGE}_order"
_SHOWN = (VALID_FROM, VALID_TO, IS_CURRENT)


def columns(spec: TableSpec, there: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """The table's columns.

    Args:
        there: the types of the columns that the table has already; None: there is no table yet.
    """
    assert spec.valid_from is not None, "the table is history"
    at, lineage = spec.valid_from.type, lineage_in(there)
    own = valid_at_fields(spec, lineage)
    own += [Column(ABSENT_FIELD, "ARRAY<STRING>")] if spec.partial_columns else []
    own += knows(spec, there)
    shown = Column(VALID_FROM, at), Column(VALID_TO, at), Column(IS_CURRENT, "BOOLEAN")
    return (*spec.columns, *shown, lineage_column(spec, own, lineage))


def folded(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """All changes. Rows become one row only where a transform has made the same change twice.

    Args:
        rows: as `dispositions` returns them.

    Columns: DISPOSITION and the numbers; a change also has the target's columns, without those that are computed, and
    `_lakemark` as a new table has it, without the batch.
    """
    own = [F.col(f"{LINEAGE}.{field.name}").alias(field.name) for field in lineage_fields(spec, with_batch=False)]
    own += [F.col(VALID_AT).alias(field.name) for field in valid_at_fields(spec, None)]
    own += [F.col(ABSENT).alias(ABSENT_FIELD)] if spec.partial_columns else []
    names = [spark_name(column.name) for column in spec.columns]
    changes = rows.select(*names, F.struct(*own).alias(LINEAGE), *OF_DISPOSITION)
    if not spec.unites_rows:
        return changes
    # A transform may make several rows for one key from one record: any of them will do, if it is always the same one.
    keys, whole = [spark_name(name) for name in spec.keys], F.struct(*names, LINEAGE)
    found = changes.groupBy(*keys, DISPOSITION, F.expr(order_of(spec)).alias(_ORDER)).agg(
        F.max_by(whole, F.to_json(whole)).alias(_WHOLE), *tallied()
    )
    return found.select(f"{_WHOLE}.*", *OF_DISPOSITION)


def spliced(table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str, again: Batch | None) -> DataFrame:
    """The rows that MERGE has to write: changes that the table lacks, and rows that show something else after them.

    Args:
        table: the target. changes: as `folded` makes them. lineage: the type of the table's lineage.
        again: the batch, if some of its changes may be there already. Those that differ are written again, and rows
            of the batch that are no longer among its changes are deleted.

    Columns: the table's, and `_lakemark_gone`, whether the row is deleted.
    """
    keys = [spark_name(name) for name in spec.keys]
    names = [spark_name(column.name) for column in spec.columns]
    was = F.struct(*names, *_SHOWN, LINEAGE).alias(_WAS)
    there = table.where(is_ours()).join(changes.select(*keys).distinct(), list(spec.keys), "left_semi")
    old = there.select(*names, LINEAGE, was, F.lit(False).alias(_OWN))
    new = changes.select(*names, _lineage_in(lineage, spec), F.lit(None).alias(_WAS), F.lit(True).alias(_OWN))
    order = F.expr(order_of(spec, lineage))
    in_order = Window.partitionBy(*keys).orderBy(order, _OWN)
    both = _one_of_two(old.unionByName(new), order, in_order, again)
    gone = F.lit(False) if again is None else ~F.col(_OWN) & _is_of(again)
    whole = both.select("*", gone.alias(GONE))
    late = _late(lineage)
    at = F.expr(valid_at(spec, lineage))
    seen = _with_periods(_with_images(whole.where(~F.col(GONE)), spec, late, in_order), spec, at, in_order)
    compared = [column.name for column in spec.columns]
    now = F.struct(*_comparable(spec, compared), *_SHOWN, LINEAGE)
    before = F.struct(*_comparable(spec, compared, f"{_WAS}."), *(f"{_WAS}.{name}" for name in (*_SHOWN, LINEAGE)))
    differs = F.col(_WAS).isNull() | ~now.eqNullSafe(before)
    written = seen.where(differs).select(*names, *_SHOWN, LINEAGE, F.lit(False).alias(GONE))
    if again is None:
        return written
    return written.union(whole.where(GONE).select(f"{_WAS}.*", GONE))


def _one_of_two(rows: DataFrame, order: Expression, in_order: WindowSpec, again: Batch | None) -> DataFrame:
    """A change that is there already is in both frames. This keeps one of the two: the old row, or the row as decoded
    today. The old values are known in both cases."""
    before, after = F.lag(order).over(in_order), F.lead(order).over(in_order)
    was = F.coalesce(_WAS, F.when(before == order, F.lag(_WAS).over(in_order)))
    if again is None:
        taken = ~F.col(_OWN) | before.isNull() | (before != order)
    else:
        taken = F.col(_OWN) | after.isNull() | (after != order)
    columns = [name for name in rows.columns if name != _WAS]
    return rows.select(*map(spark_name, columns), was.alias(_WAS), taken.alias(GONE)).where(GONE).drop(GONE)


def _is_of(batch: Batch) -> Expression:
    own = (F.col(f"{LINEAGE}.generation") == batch.generation) & (F.col(f"{LINEAGE}.batch_id") == batch.batch_id)
    return F.coalesce(own, F.lit(False))


def _late(lineage: str) -> dict[str, str]:
    """The columns that were added when the table had rows, by their names in small letters."""
    return {name.lower(): name for name in struct_fields(struct_fields(lineage).get(KNOWS, ""))}


def _lineage_in(lineage: str, spec: TableSpec) -> Expression:
    """The lineage of changes in the table's form. Its fields about columns are the table's, not today's file's."""
    declared = {column.name.lower() for column in spec.columns}
    of_columns = {
        KNOWS: F.struct(*(F.lit(name in declared).alias(own) for name, own in _late(lineage).items())),
        ABSENT_FIELD: F.col(f"{LINEAGE}.{ABSENT_FIELD}") if spec.partial_columns else F.lit(None).cast("array<string>"),
    }
    of_all = {name: F.expr(value) for name, value in in_form(spec, lineage).items()}
    made = {field.name for field in valid_at_fields(spec, None)}  # an old table may have it beside the column

    def field(name: str, type_: str) -> Expression:
        if name == VALID_AT_FIELD and name not in made:
            return F.lit(None).cast(type_)
        return {**of_all, **of_columns}.get(name, F.col(f"{LINEAGE}.{name}"))

    return F.struct(*(field(name, type_).alias(name) for name, type_ in struct_fields(lineage).items())).alias(LINEAGE)


def _with_images(rows: DataFrame, spec: TableSpec, late: Collection[str], in_order: WindowSpec) -> DataFrame:
    """Fills the columns that a change leaves out with their values after the change before it."""
    if not spec.partial_columns:
        return rows
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def image(name: str) -> Expression:
        if name not in spec.partial_columns:
            return F.col(spark_name(name))
        is_set = ~F.coalesce(F.array_contains(f"{LINEAGE}.{ABSENT_FIELD}", name), F.lit(False))
        if name.lower() in late:
            is_set &= F.coalesce(F.col(f"{LINEAGE}.{KNOWS}.{spark_name(name)}"), F.lit(False))
        held = F.when(is_set, F.struct(F.col(spark_name(name)).alias("value")))
        return F.last(held, ignorenulls=True).over(until_now)["value"].alias(name)

    names = [column.name for column in spec.columns]
    return rows.select(*map(image, names), LINEAGE, _WAS, _OWN)


def _with_periods(rows: DataFrame, spec: TableSpec, at: Expression, in_order: WindowSpec) -> DataFrame:
    """Adds the columns of history: which rows show a state, from when it is valid, and until when.

    Args:
        at: from when a row's change is valid.
    """
    tracked = spec.track_columns or [column.name for column in spec.columns]
    state = F.struct(*_comparable(spec, tracked), F.col(f"{LINEAGE}.deleted"))
    begun = rows.select("*", (~F.lag(state).over(in_order).eqNullSafe(state)).alias(_BEGINS))
    followed = begun.select("*", F.lead(F.struct(F.col(_BEGINS), at.alias("at"))).over(in_order).alias(_NEXT))
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    since = F.last(F.when(F.col(_BEGINS), at), ignorenulls=True).over(until_now)
    is_last = F.col(_NEXT).isNull() | F.col(f"{_NEXT}.{_BEGINS}")
    shows = is_last & ~F.col(f"{LINEAGE}.deleted")
    return followed.select(
        *(spark_name(column.name) for column in spec.columns),
        F.when(shows, since).alias(VALID_FROM),
        F.when(shows, F.col(f"{_NEXT}.at")).alias(VALID_TO),
        (shows & F.col(_NEXT).isNull()).alias(IS_CURRENT),
        LINEAGE,
        _WAS,
    )


def _comparable(spec: TableSpec, names: Iterable[str], of: str = "") -> list[Expression]:
    """Columns in a form that can be compared: Spark cannot compare maps."""
    types = {column.name: column.type.upper() for column in spec.columns}
    columns = {name: F.col(f"{of}{spark_name(name)}") for name in names}
    return [F.to_json(F.struct(column)) if "MAP" in types[name] else column for name, column in columns.items()]


def merge(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    spec: TableSpec,
    lineage: str,
    again: Batch | None,
    within: str | None,
) -> Merge:
    """The MERGE that applies prepared changes (see `contract.Writer`)."""
    table = spark.read.format("delta").load(str(uri)).alias("target").where(within or "true")
    source = spliced(table, changes, spec, lineage, again=again)
    return Merge(source, merge_statement(spark_table(uri), CHANGES, spec, lineage=lineage, within=within))


def patched(table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str, again: Batch | None) -> DataFrame:
    """The rows that the MERGE of these changes would write (see `contract.Kind`)."""
    return spliced(table, changes, spec, lineage, again=again)


def identity(spec: TableSpec, lineage: str) -> tuple[Value, ...]:
    """A key's rows differ in their orders (see `contract.Kind`)."""
    return (*(((key,),) for key in spec.keys), *order_values(spec, lineage).values())


def applied(table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str) -> DataFrame:
    """The table as the MERGE of these changes would make it. Columns: the table's.

    Args:
        table: a version of the table. changes, lineage: as for `merge`.
    """
    written = spliced(table, changes, spec, lineage, again=None).drop(GONE)
    order = F.when(F.expr(is_ours()), F.expr(order_of(spec, lineage)))
    known = written.select(*map(spark_name, spec.keys), order.alias(_NEXT))
    there = table.select("*", order.alias(_ORDER))
    same = reduce(and_, (there[spark_name(key)].eqNullSafe(known[spark_name(key)]) for key in spec.keys))
    others = there.join(known, same & (there[_ORDER] == known[_NEXT]), "left_anti").drop(_ORDER)
    return others.unionByName(written, allowMissingColumns=True)


def merge_statement(table: str, source: str, spec: TableSpec, lineage: str, within: str | None = None) -> str:
    """The MERGE that writes what `spliced` found.

    Args:
        lineage: the type of the table's lineage. within: a condition on `target` that every match fulfils.
    """
    keys = [f"target.{spark_name(key)} = source.{spark_name(key)}" for key in spec.keys]
    orders = f"{order_of(spec, lineage, 'target.')} = {order_of(spec, lineage, 'source.')}"
    on = " AND ".join([*keys, is_ours("target."), orders, *([within] if within else [])])
    names = [spark_name(column.name) for column in columns(spec)]
    return (
        f"MERGE INTO {table} AS target USING {source} AS source ON {on} "
        f"WHEN MATCHED AND source.{GONE} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'target.{name} = source.{name}' for name in names)} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f'source.{name}' for name in names)})"
    )
