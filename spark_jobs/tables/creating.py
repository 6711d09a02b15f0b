"""Creates the tables that changes are merged into, and adds the columns that they lack."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from include.lake.delta_tables import open_table, verify_alone
from include.lake.sql import spark_name, spark_table, spark_text
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file.schema_change import KEYS, ORDER, Added, columns_to_add, of_delta, verify_keys, verify_order
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.tables.contract import Spec
from spark_jobs.tables.kinds import kind_of


def ensure(spark: SparkSession, uri: LakeUri, spec: Spec) -> None:
    """Creates a table if there is none, and adds columns that it lacks.

    It has deletion vectors: a MERGE marks replaced rows instead of rewriting the files that hold them.

    Raises:
        SchemaChanged: it has other columns than the pipeline file declares, and a person has to decide.
    """
    assert isinstance(spec, TableSpec)
    cluster_by = ", ".join(map(spark_name, spec.cluster_by))
    create_table(
        spark,
        uri,
        f"({definitions(kind_of(spec).columns(spec))}) USING delta "
        + (f"CLUSTER BY ({cluster_by}) " if cluster_by else "")
        + f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', {_properties(_rules(spec))})",
    )
    record_rules(spark, uri, spec)
    added = _missing_columns(uri, spec)
    if added:
        columns = ", ".join(f"{'.'.join(map(spark_name, column.path))} {column.type}" for column in added)
        try:
            spark.sql(f"ALTER TABLE {spark_table(uri)} ADD COLUMNS ({columns})")
        except Exception:
            if _missing_columns(uri, spec):  # else another attempt has just added them
                raise


def record_rules(spark: SparkSession, uri: LakeUri, spec: TableSpec, rows_replaced: bool = False) -> None:
    """Records in the table's properties by what columns its rows are told apart, and by what they are ordered.

    Args:
        rows_replaced: other rows have taken the place of the table's rows, and may have other keys, or another order.

    Raises:
        SchemaChanged: the table's are others than the pipeline file's.
    """
    table = open_table(uri)
    assert table is not None, "it has been created"
    found, rules = table.metadata().configuration, _rules(spec)
    binding = {} if rows_replaced else found
    verify_keys(spec.anew, spec.name, spec.keys, binding.get(KEYS))
    verify_order(spec.anew, spec.name, _order(spec), binding.get(ORDER))
    missing = {name: rule for name, rule in rules.items() if name not in binding and found.get(name) != rule}
    if missing:
        spark.sql(f"ALTER TABLE {spark_table(uri)} SET TBLPROPERTIES ({_properties(missing)})")


def _rules(spec: TableSpec) -> dict[str, str]:
    return {KEYS: json.dumps(list(spec.keys)), ORDER: json.dumps(_order(spec))}


def _order(spec: TableSpec) -> list[str]:
    return [field.name for field in spec.order]


def _properties(values: Mapping[str, str]) -> str:
    return ", ".join(f"{spark_text(name)} = {spark_text(value)}" for name, value in values.items())


def _missing_columns(uri: LakeUri, spec: TableSpec) -> tuple[Added, ...]:
    found = columns_of(uri)
    declared, policy = kind_of(spec).columns(spec, found), spec.on_schema_change
    return columns_to_add(spec.anew, spec.name, declared=declared, found=found, policy=policy)


def columns_of(uri: LakeUri) -> dict[str, str]:
    """The types of an existing table's columns, by name."""
    table = open_table(uri)
    assert table is not None, "it has been created"
    return {field["name"]: of_delta(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}


def definitions(columns: Iterable[Column]) -> str:
    """The columns of a table, for CREATE TABLE."""
    return ", ".join(f"{spark_name(column.name)} {column.type}" for column in columns)


def create_table(spark: SparkSession, uri: LakeUri, definition: str) -> None:
    """Creates a table if there is none, even if two processes do so at once: Delta alone lets one of them fail.

    Raises:
        TerminalError: the table would lie within another table's folder, or around one.
    """
    if TableLog.open(uri) is not None:
        return  # what follows would do nothing, slowly
    verify_alone(uri)
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {spark_table(uri)} {definition}")
    except Exception:
        if TableLog.open(uri) is None:
            raise
