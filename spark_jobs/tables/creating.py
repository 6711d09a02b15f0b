"""Creates the tables that changes are merged into, and adds the columns that they lack."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from include.lake.delta_tables import verify_alone, verify_forgets_no_marker
from include.lake.sql import spark_name, spark_table, spark_text
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file.schema_change import KEYS, ORDER, Added, columns_to_add, types_in, verify_keys, verify_order
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
    table = TableLog.open(uri) or _created(spark, uri, spec)
    _record_rules(spark, uri, spec, table)
    added = _missing_columns(table, spec)
    if added:
        columns = ", ".join(f"{'.'.join(map(spark_name, column.path))} {column.type}" for column in added)
        try:
            spark.sql(f"ALTER TABLE {spark_table(uri)} ADD COLUMNS ({columns})")
        except Exception:
            if _missing_columns(_opened(uri), spec):  # else another attempt has just added them
                raise


def _created(spark: SparkSession, uri: LakeUri, spec: TableSpec) -> TableLog:
    cluster_by = ", ".join(map(spark_name, spec.cluster_by))
    create_table(
        spark,
        uri,
        f"({definitions(kind_of(spec).columns(spec))}) USING delta "
        + (f"CLUSTER BY ({cluster_by}) " if cluster_by else "")
        + f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', {_properties(_rules(spec))})",
    )
    return _opened(uri)


def replace_rules(spark: SparkSession, uri: LakeUri, spec: TableSpec) -> None:
    """Records by what columns a table's rows are told apart, and by what they are ordered, where other rows have taken
    the place of its own."""
    found, rules = _opened(uri).configuration, _rules(spec)
    _set_properties(spark, uri, {name: rule for name, rule in rules.items() if found.get(name) != rule})


def _record_rules(spark: SparkSession, uri: LakeUri, spec: TableSpec, table: TableLog) -> None:
    """Raises SchemaChanged if the table's rules are others than the pipeline file's, and TerminalError if it forgets
    markers. Records what an earlier Lakemark has not."""
    found = table.configuration
    verify_forgets_no_marker(uri, found)
    verify_keys(spec.anew, spec.name, spec.keys, found.get(KEYS))
    verify_order(spec.anew, spec.name, _order(spec), found.get(ORDER))
    _set_properties(spark, uri, {name: rule for name, rule in _rules(spec).items() if name not in found})


def _set_properties(spark: SparkSession, uri: LakeUri, values: Mapping[str, str]) -> None:
    if values:
        spark.sql(f"ALTER TABLE {spark_table(uri)} SET TBLPROPERTIES ({_properties(values)})")


def _rules(spec: TableSpec) -> dict[str, str]:
    return {KEYS: json.dumps(list(spec.keys)), ORDER: json.dumps(_order(spec))}


def _order(spec: TableSpec) -> list[str]:
    return [field.name for field in spec.order]


def _properties(values: Mapping[str, str]) -> str:
    return ", ".join(f"{spark_text(name)} = {spark_text(value)}" for name, value in values.items())


def _missing_columns(table: TableLog, spec: TableSpec) -> tuple[Added, ...]:
    found = types_in(table.schema)
    declared, policy = kind_of(spec).columns(spec, found), spec.on_schema_change
    return columns_to_add(spec.anew, spec.name, declared=declared, found=found, policy=policy)


def columns_of(uri: LakeUri) -> dict[str, str]:
    """The types of an existing table's columns, by name."""
    return types_in(_opened(uri).schema)


def _opened(uri: LakeUri) -> TableLog:
    table = TableLog.open(uri)
    assert table is not None, "it has been created"
    return table


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
