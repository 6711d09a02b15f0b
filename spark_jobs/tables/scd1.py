"""Tables with one row per key, which shows the key's newest change (SCD type 1).

Each column that a change may leave out (`absent: keep`) has an order of its own: the order of the change that set it
last. Such a column is a register where the last writer wins, so patches may come in any order, too (I9). Source:
Shapiro et al., "A comprehensive study of Convergent and Commutative Replicated Data Types" (2011), LWW-Register.

The table says which registers there are, not the pipeline file. A register is kept up to date even if its column is no
longer declared, or is always set today: so it is right if the file changes again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from include.lake.merge.order import Value
from include.lake.merge.patch import GONE
from include.lake.sql import spark_name, spark_table
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_change import COLUMN_ORDER, KNOWS, struct_fields
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from spark_jobs.changes.dispositions import DISPOSITION, OF_DISPOSITION, tallied
from spark_jobs.formats.contract import ABSENT
from spark_jobs.formats.functions import struct_of
from spark_jobs.tables.contract import CHANGES, Merge
from spark_jobs.tables.lineage import (
    in_form,
    is_ours,
    knows,
    lineage_column,
    lineage_fields,
    lineage_in,
    named_struct,
    order_fields,
    order_of,
    order_type,
)
from spark_jobs.tables.truncates import with_truncates

SET_AT = f"{LINEAGE}_set"  # struct: for each partial column the order of the batch's change that set it last
_NEWEST = f"{LINEAGE}_newest"
_IS_THERE, _COMES = f"{LINEAGE}_is_there", f"{LINEAGE}_comes"
# A MERGE reads its source twice, so it first makes a copy. This says that the attempt has kept the source already.
_KEPT_SOURCE = {"spark.databricks.delta.merge.materializeSource": "none"}


def columns(spec: TableSpec, there: Mapping[str, str] | None = None) -> tuple[Column, ...]:
    """The table's columns. COLUMN_ORDER in the lineage is the row's SET_AT: null where it is the row's own order.

    Args:
        there: the types of the columns that the table has already; None: there is no table yet.
    """
    partial = spec.partial_columns
    orders = ", ".join(f"{spark_name(name)}: {order_type(spec)}" for name in partial)
    own = [Column(COLUMN_ORDER, f"STRUCT<{orders}>")] if partial else []
    return (*spec.columns, lineage_column(spec, [*own, *knows(spec, there)], lineage_in(there)))


def folded(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """One row per key, because MERGE refuses two source rows for one target row; and one row per other disposition.

    Args:
        rows: as `dispositions` returns them.

    Columns: DISPOSITION and the numbers; a change also has the target's columns and `_lakemark`, without its batch.
    Where changes may leave columns out, each such column has the newest value that sets it, and SET_AT has the orders
    of those changes.
    """
    order, partial = F.expr(order_of(spec)), spec.partial_columns
    names = [column.name for column in spec.columns]
    whole = [name for name in names if name not in (*partial, *spec.keys)]
    newest = F.struct(*map(spark_name, whole), LINEAGE)
    set_at = {name: F.when(~_is_absent(name), order) for name in partial}

    def place(at: Expression) -> Expression:
        """What decides between changes. A transform may make several rows for one key from one record, with the same
        order: any of them will do, as long as it is always the same one."""
        if not spec.unites_rows:
            return at
        return F.when(at.isNotNull(), F.struct(at, F.to_json(F.struct(*map(spark_name, names), LINEAGE))))

    # Keys first: this aggregation sorts, and what differs early is sorted sooner.
    found = rows.groupBy(*map(spark_name, spec.keys), DISPOSITION).agg(
        F.max_by(newest, place(order)).alias(_NEWEST),
        *(
            F.struct(F.max_by(spark_name(name), place(at)).alias("value"), F.max(at).alias("at")).alias(name)
            for name, at in set_at.items()
        ),
        *tallied(),
    )

    def value(name: str) -> Expression:
        if name in spec.keys:
            return F.col(spark_name(name))
        return F.col(f"{spark_name(name)}.value" if name in partial else f"{_NEWEST}.{spark_name(name)}").alias(name)

    never = F.struct(*(F.lit(None).cast(f.type).alias(f.name) for f in order_fields(spec)))
    orders = [F.coalesce(F.col(f"{spark_name(name)}.at"), never).alias(name) for name in partial]
    return found.select(
        *map(value, names),
        F.col(f"{_NEWEST}.{LINEAGE}").cast(_type_of_lineage(spec)).alias(LINEAGE),
        *([F.struct(*orders).alias(SET_AT)] if partial else []),
        *OF_DISPOSITION,
    )


def _type_of_lineage(spec: TableSpec) -> str:
    """The type of the lineage of changes, in which any field may be null."""
    return struct_of(lineage_fields(spec, with_batch=False), marks=False)


def _is_absent(name: str) -> Expression:
    return F.coalesce(F.array_contains(ABSENT, name), F.lit(False))


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
    statement = merge_statement(spark_table(uri), CHANGES, spec, lineage, again=again is not None, within=within)
    if not spec.truncates:
        return Merge(changes, statement, _KEPT_SOURCE)
    return Merge(
        with_truncates(spark.read.format("delta").load(str(uri)), changes, spec, lineage=lineage, set_at=SET_AT),
        statement,
    )


def merge_statement(
    table: str, source: str, spec: TableSpec, lineage: str, again: bool, within: str | None = None
) -> str:
    """The MERGE that applies a batch's changes only where they are newer than the table's rows (I9).

    A delete leaves a tombstone: the row's keys, what orders it, and the lineage stay, `_lakemark.deleted` is true, all
    else is null.

    Args:
        lineage: the type of the table's lineage.
        again: a change that is there already is written again, because it may be decoded differently today.
        within: a condition on `target` that every match fulfils.
    """
    on, is_taken, update, insert = _assignments(spec, lineage, again)
    on = f"{on} AND {within}" if within else on
    return (
        f"MERGE INTO {table} AS target USING {source} AS source ON {on} WHEN MATCHED AND ({is_taken}) THEN UPDATE SET "
        + ", ".join(f"target.{spark_name(name)} = {value}" for name, value in update.items())
        + f" WHEN NOT MATCHED THEN INSERT ({', '.join(map(spark_name, insert))}) VALUES ({', '.join(insert.values())})"
    )


def applied(table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str) -> DataFrame:
    """The table as the MERGE of these changes would make it. Columns: the table's.

    Args:
        table: a version of the table. changes, lineage: as for `merge`.
    """
    if spec.truncates:
        changes = with_truncates(table, changes, spec, lineage=lineage, set_at=SET_AT)
    both, columns_of, _ = _merged(table, changes, spec, lineage, again=False)
    return both.select(*columns_of)


def patched(table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str, again: Batch | None) -> DataFrame:
    """The rows that the MERGE of these changes would write (see `contract.Kind`)."""
    if spec.truncates:
        changes = with_truncates(table, changes, spec, lineage=lineage, set_at=SET_AT)
    both, columns_of, is_written = _merged(table, changes, spec, lineage, again=again is not None)
    return both.where(is_written).select(*columns_of, F.lit(False).alias(GONE))


def identity(spec: TableSpec, lineage: str) -> tuple[Value, ...]:
    """A key has one row (see `contract.Kind`)."""
    return tuple(((key,),) for key in spec.keys)


def _merged(
    table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str, again: bool
) -> tuple[DataFrame, list[Expression], Expression]:
    """Rows and changes side by side; the table's columns after the MERGE; and whether it writes the row."""
    on, is_taken, update, insert = _assignments(spec, lineage, again)
    there = table.select("*", F.lit(True).alias(_IS_THERE)).alias("target")
    come = changes.select("*", F.lit(True).alias(_COMES)).alias("source")
    both = there.join(come, F.expr(on), "full_outer")
    stays = F.col(f"source.{_COMES}").isNull()
    is_new = F.col(f"target.{_IS_THERE}").isNull()

    def value(name: str, type_: DataType) -> Expression:
        own = f"target.{spark_name(name)}"
        kept, new = F.expr(update.get(name, own)).cast(type_), F.expr(insert.get(name, "null")).cast(type_)
        found = F.when(stays, F.col(own)).when(is_new, new).when(F.expr(is_taken), kept)
        return found.otherwise(F.col(own)).alias(name)

    columns_of = [value(field.name, field.dataType) for field in table.schema.fields]
    return both, columns_of, ~stays & (is_new | F.expr(is_taken))


def _assignments(spec: TableSpec, lineage: str, again: bool) -> tuple[str, str, dict[str, str], dict[str, str]]:
    """SQL over a row of `target` and a change of `source`: when they belong together, when the change is taken, and
    what an update and an insert write to each column. Args as for `merge_statement`."""
    newer = ">=" if again else ">"
    # Every change is newer than a row from another writer.
    come, there = order_of(spec, row="source."), order_of(spec, lineage, "target.")
    is_newer = f"(NOT ({is_ours('target.')}) OR {come} {newer} {there})"
    names = [column.name for column in spec.columns]
    if COLUMN_ORDER in struct_fields(lineage):
        update, insert, takes = _by_column(spec, names, lineage, is_newer=is_newer, newer=newer)
    else:
        insert = {name: f"source.{spark_name(name)}" for name in names}
        insert[LINEAGE] = named_struct(in_form(spec, lineage, "source."))
        update, takes = insert, []
    equal = "<=>" if spec.truncates else "="  # the row of truncates has no keys
    on = " AND ".join(f"target.{spark_name(key)} {equal} source.{spark_name(key)}" for key in spec.keys)
    return on, " OR ".join([is_newer, *takes]), update, insert


def _by_column(
    spec: TableSpec, names: Sequence[str], lineage: str, is_newer: str, newer: str
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """What an update and an insert write to each column, and the conditions on which a column is taken from the source
    although the row is newer."""
    fields = struct_fields(lineage)
    registers, late = struct_fields(fields[COLUMN_ORDER]), struct_fields(fields.get(KNOWS, ""))
    never = named_struct({f.name: f"CAST(NULL AS {f.type})" for f in order_fields(spec)})
    there, come = f"target.{LINEAGE}", in_form(spec, lineage, "source.")
    of_row, of_change = order_of(spec, lineage, "target."), order_of(spec, row="source.")
    order = f"IF({is_newer}, {of_change}, {of_row})"
    partial, declared = ({name.lower() for name in those} for those in (spec.partial_columns, names))

    def set_by_row(name: str) -> str:
        return f"IF({there}.{KNOWS}.{spark_name(name)}, {of_row}, NULL)" if name in late else of_row

    def set_by_change(name: str) -> str:
        if name.lower() not in declared:
            return never
        return f"source.{SET_AT}.{spark_name(name)}" if name.lower() in partial else of_change

    held = {n: f"coalesce({there}.{COLUMN_ORDER}.{spark_name(n)}, {set_by_row(n)}, {never})" for n in registers}
    takes = {n: f"{set_by_change(n)} {newer} {held[n]}" for n in registers if n.lower() in declared}

    def unless_equal(at: str, row: str) -> str:
        return f"IF({at} = {row}, NULL, {at})"

    def written(own: dict[str, str], column_orders: dict[str, str]) -> str:
        """The lineage, with its fields in the table's order."""
        of_columns = {COLUMN_ORDER: named_struct(column_orders), KNOWS: named_struct(dict.fromkeys(late, "true"))}
        return named_struct({name: of_columns.get(name) or own[name] for name in fields})

    base = [name for name in fields if name not in (COLUMN_ORDER, KNOWS)]
    new_orders = {
        n: unless_equal(f"IF({takes[n]}, {set_by_change(n)}, {at})" if n in takes else at, order)
        for n, at in held.items()
    }
    own_orders = {n: unless_equal(set_by_change(n), of_change) for n in registers}
    taken = {name.lower(): take for name, take in takes.items()}
    update = {
        name: f"IF({taken.get(name.lower(), is_newer)}, source.{spark_name(name)}, target.{spark_name(name)})"
        for name in names
    }
    update[LINEAGE] = written({f: f"IF({is_newer}, {come[f]}, {there}.{f})" for f in base}, new_orders)
    insert = {name: f"source.{spark_name(name)}" for name in names}
    insert[LINEAGE] = written({f: come[f] for f in base}, own_orders)
    return update, insert, list(takes.values())
