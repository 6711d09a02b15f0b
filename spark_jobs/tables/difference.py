"""The difference between a table and what it must be, as a MERGE that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.lake.merge.patch import GONE
from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.engine.rows import comparable
from spark_jobs.tables.lineage import is_ours, order_of

DIFFERENCE = "lakemark_difference"  # the view that the MERGE reads


def difference(head: DataFrame, wanted: DataFrame, spec: TableSpec, lineage: str) -> DataFrame:
    """The rows that make the table what it must be. Columns: the table's, and `_lakemark_gone`: the row is removed.

    What tells rows apart is the key, in a history also the change's order. Rows of another writer, which have no
    order, stay in a history as they are.

    Args:
        head: the table as it is. wanted: as it must be, with the same columns. lineage: the type of the table's.
    """
    if spec.kind == "scd2":
        head, wanted = (rows.where(is_ours()) for rows in (head, wanted))
    names, identity = head.columns, _identity(spec, lineage)
    told_apart = [F.expr(column).alias(name) for name, column in identity.items()]
    there = head.select(*told_apart, F.struct(*map(spark_name, names)).alias("was"))
    must = wanted.select(*told_apart, F.struct(*map(spark_name, names)).alias("is"))
    same = reduce(and_, (F.col(f"h.{name}").eqNullSafe(F.col(f"w.{name}")) for name in identity))
    both = there.alias("h").join(must.alias("w"), same, "full_outer")
    was, now = (F.struct(*comparable(head.schema, f"{of}.")) for of in ("was", "is"))
    differs = ~was.eqNullSafe(now)
    is_gone = F.col("is").isNull()
    rows = both.where(differs | F.col("was").isNull() | is_gone).select(
        F.coalesce("is", "was").alias("row"), is_gone.alias(GONE)
    )
    # Another writer may have put several rows under one key.
    return rows.select("row.*", GONE).select("*", *told_apart).dropDuplicates([*identity]).drop(*identity)


def difference_statement(table: str, names: Sequence[str], spec: TableSpec, lineage: str) -> str:
    """The MERGE whose source is the view DIFFERENCE.

    Args:
        names: the table's columns. lineage: the type of the table's.
    """
    rows = (_identity(spec, lineage, row).values() for row in ("target.", "source."))
    same = [f"{there} <=> {come}" for there, come in zip(*rows, strict=True)]
    on = " AND ".join([*same, *([is_ours("target.")] if spec.kind == "scd2" else [])])
    columns = [spark_name(name) for name in names]
    return (
        f"MERGE INTO {table} AS target USING {DIFFERENCE} AS source ON {on} "
        f"WHEN MATCHED AND source.{GONE} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'target.{name} = source.{name}' for name in columns)} "
        f"WHEN NOT MATCHED AND NOT source.{GONE} "
        f"THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f'source.{name}' for name in columns)})"
    )


def _identity(spec: TableSpec, lineage: str, row: str = "") -> dict[str, str]:
    """What tells rows apart, in SQL, by names that no table's column has. Args: row: as for `order_of`."""
    orders = [order_of(spec, lineage, row)] if spec.kind == "scd2" else []
    columns = [*(f"{row}{spark_name(key)}" for key in spec.keys), *orders]
    return {f"{LINEAGE}_key_{n}": column for n, column in enumerate(columns)}
