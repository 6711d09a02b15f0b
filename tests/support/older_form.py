"""Tables as a Lakemark before "lean rows" made them: every row says its whole order in its lineage.

`tests/upgrade` has real ones, of that version; these are for random streams.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from include.lake.sql import spark_name, spark_table
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE
from include.pipeline_file.schema_change import struct_fields
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.tables.creating import columns_of, definitions
from spark_jobs.tables.kinds import kind_of
from spark_jobs.tables.lineage import named_struct, order_of, order_type, valid_at


def create_in_older_form(spark: SparkSession, uri: LakeUri, spec: TableSpec) -> None:
    of_before = f"STRUCT<change_order: {order_type(spec)}, valid_at: INT>"  # what tells that form apart
    there = {column.name: column.type for column in spec.columns} | {LINEAGE: of_before}
    *columns, lineage = kind_of(spec).columns(spec, there)
    fields = struct_fields(lineage.type)
    in_order = {name: fields[name] for name in ("generation", "batch_id")} | fields
    type_ = ", ".join(f"{spark_name(name)}: {of}" for name, of in in_order.items())
    columns.append(lineage._replace(type=f"STRUCT<{type_}>"))
    spark.sql(
        f"CREATE TABLE {spark_table(uri)} ({definitions(columns)}) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )


def rewrite_in_older_form(spark: SparkSession, uri: LakeUri, spec: TableSpec) -> None:
    """Makes of every row what that Lakemark would have written: a delete is without its order's columns."""
    lineage = columns_of(uri)[LINEAGE]
    own = {name: f"{LINEAGE}.{spark_name(name)}" for name in struct_fields(lineage)}
    own["change_order"] = order_of(spec, lineage)
    if "valid_at" in own:
        own["valid_at"] = valid_at(spec, lineage)
    placing = {field.name for field in (*spec.order, *([spec.valid_from] if spec.valid_from else []))}
    values = {LINEAGE: named_struct(own)}
    for column in spec.columns:
        if column.name in placing - {*spec.keys}:
            values[column.name] = f"IF({LINEAGE}.deleted, NULL, {spark_name(column.name)})"
    spark.sql(
        f"UPDATE {spark_table(uri)} SET {', '.join(f'{spark_name(name)} = {value}' for name, value in values.items())}"
    )
