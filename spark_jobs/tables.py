"""The Delta tables of a pipeline: how they are made and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from include.delta_tables import open_table
from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.commit_metadata import CommitMetadata
from include.schema_change import columns_to_add, of_delta
from include.schema_ddl import Column
from include.target_log import TableLog
from spark_jobs.failures import is_same_marker
from spark_jobs.marking import marked_write, with_metadata

_QUARANTINE_COLUMNS = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, reason STRING, "
    "generation INT, batch_id BIGINT, rules ARRAY<STRING>"
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def table_name(path: str) -> str:
    return f"delta.{quoted(path)}"


def ensure_target(spark: SparkSession, path: str, pipeline: Pipeline) -> None:
    """Creates the target if there is none, and adds columns that it lacks.

    Deletion vectors: a MERGE marks replaced rows instead of rewriting the files that hold them.

    Raises:
        SchemaChanged: it has other columns than the pipeline file declares, and a person has to decide.
    """
    declared = [*pipeline.source.columns, Column(LINEAGE, _lineage_type(pipeline))]
    cluster_by = ", ".join(map(quoted, pipeline.target.cluster_by))
    _create(
        spark,
        path,
        f"({_definitions(declared)}) USING delta "
        + (f"CLUSTER BY ({cluster_by}) " if cluster_by else "")
        + "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    )
    added = _missing_columns(path, pipeline, declared)
    if added:
        try:
            spark.sql(f"ALTER TABLE {table_name(path)} ADD COLUMNS ({_definitions(added)})")
        except Exception:
            if _missing_columns(path, pipeline, declared):  # else another attempt has just added them
                raise


def _missing_columns(path: str, pipeline: Pipeline, declared: Sequence[Column]) -> tuple[Column, ...]:
    table = open_table(path)
    assert table is not None, "it has just been created"
    found = {field["name"]: of_delta(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}
    return columns_to_add(pipeline.target.table, declared, found, pipeline.change.on_schema_change)


def _lineage_type(pipeline: Pipeline) -> str:
    order = [f"{quoted(field.name)}: {field.type}" for field in pipeline.order]
    order += ["_topic: STRING", "_partition: INT", "_offset: BIGINT"]
    return (
        "STRUCT<generation: INT, batch_id: BIGINT, topic: STRING, partition: INT, offset: BIGINT, "
        f"change_order: STRUCT<{', '.join(order)}>, deleted: BOOLEAN>"
    )


def _definitions(columns: Iterable[Column]) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def _create(spark: SparkSession, path: str, definition: str) -> None:
    """Two who create it at once are no error, though Delta gives one of them one."""
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table_name(path)} {definition}")
    except Exception:
        if TableLog.open(path) is None:
            raise


def merge_changes(
    spark: SparkSession, path: str, changes: DataFrame, pipeline: Pipeline, metadata: CommitMetadata
) -> bool:
    """MERGEs one change per key into the target, only where it is newer than the row that is there (I9).

    A backfill's chunk also replaces a row that came from the very same record: it may be decoded otherwise today.
    A delete leaves a tombstone: the row's key and lineage stay, `_lakemark.deleted` is true, all else is null.

    Returns:
        True when this call's commit is the batch's; False when Delta saw that the marker was there already.
    """
    keys = pipeline.change.keys
    columns = [column.name for column in pipeline.source.columns]

    def value(name: str) -> str:
        source = f"source.{quoted(name)}"
        if name in keys or name == LINEAGE or not pipeline.has_deletes:
            return source
        return f"IF(source.{LINEAGE}.deleted, NULL, {source})"

    newer = ">=" if metadata.batch.is_chunk else ">"
    written = [*columns, LINEAGE]
    changes.createOrReplaceTempView("lakemark_changes")
    statement = (
        f"MERGE INTO {table_name(path)} AS target USING lakemark_changes AS source "
        f"ON {' AND '.join(f'target.{quoted(key)} = source.{quoted(key)}' for key in keys)} "
        # A row that another writer put there has no change order: any change is newer than that.
        f"WHEN MATCHED AND (target.{LINEAGE}.change_order IS NULL "
        f"OR source.{LINEAGE}.change_order {newer} target.{LINEAGE}.change_order) THEN UPDATE SET "
        + ", ".join(f"target.{quoted(name)} = {value(name)}" for name in written)
        + f" WHEN NOT MATCHED THEN INSERT ({', '.join(map(quoted, written))}) "
        f"VALUES ({', '.join(map(value, written))})"
    )
    with marked_write(spark, metadata):
        return bool(spark.sql(statement).collect())


def append_quarantine(spark: SparkSession, path: str, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Keeps the records that are not merged, each with its reason and every rule that it breaks; a second call for a
    batch does nothing."""
    _create(spark, path, f"({_QUARANTINE_COLUMNS}) USING delta")
    try:
        with marked_write(spark, metadata):
            _set_aside(judged, metadata).write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    except Exception as error:
        if not is_same_marker(error):  # another attempt has just kept the same records
            raise


def replace_quarantine(spark: SparkSession, path: str, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Puts what this attempt sets aside in the place of what an earlier attempt at the batch did."""
    batch = metadata.batch
    of_batch = f"generation = {batch.generation} AND batch_id = {batch.batch_id}"
    with with_metadata(spark, metadata.dumps()):
        rows = _set_aside(judged, metadata).write.format("delta").mode("overwrite").option("replaceWhere", of_batch)
        rows.option("mergeSchema", "true").save(path)


def _set_aside(judged: DataFrame, metadata: CommitMetadata) -> DataFrame:
    batch = metadata.batch
    return judged.where("reason IS NOT NULL").selectExpr(
        *("topic", "partition", "offset", "timestamp", "key", "value", "reason"),
        f"{batch.generation} AS generation",
        f"CAST({batch.batch_id} AS BIGINT) AS batch_id",
        "rules",
        *(["headers"] if "headers" in judged.columns else []),
    )
