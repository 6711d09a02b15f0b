"""Creates and writes the Delta tables of a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from include.lake.delta_tables import open_table, verify_alone
from include.lake.sql import spark_name, spark_table, spark_text
from include.lake.stores import log_store_of
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_change import KEYS, Added, columns_to_add, of_delta, verify_keys
from include.pipeline_file.schema_ddl import Column
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.changes.dispositions import changes_in, dispositions, is_for
from spark_jobs.engine.failures import is_same_marker
from spark_jobs.engine.marking import marked_write, settings_of, with_metadata
from spark_jobs.tables import scd1, scd2
from spark_jobs.tables.pruning import key_condition
from spark_jobs.tables.truncates import with_truncates

_CHANGES = "lakemark_changes"
# A MERGE reads its source twice, so it first makes a copy. This says that the attempt has kept the source already.
_KEPT_SOURCE = {"spark.databricks.delta.merge.materializeSource": "none"}
_QUARANTINE_COLUMNS = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, reason STRING, "
    "generation INT, batch_id BIGINT, rules ARRAY<STRING>"
)


def ensure_target(spark: SparkSession, uri: LakeUri, pipeline: Pipeline, name: str | None = None) -> None:
    """Creates the target if there is none, and adds columns that it lacks.

    Args:
        name: a route's table; None: the target.

    Raises:
        SchemaChanged: it has other columns than the pipeline file declares, and a person has to decide.
    """
    _ensure(spark, uri, pipeline, name=name or pipeline.target.table, kind=_kind(pipeline))


def ensure_history(spark: SparkSession, uri: LakeUri, pipeline: Pipeline) -> None:
    """Creates the history table beside the target, or adds the columns that it lacks. Raises as `ensure_target`."""
    _ensure(spark, uri, pipeline, name=pipeline.target.history_table or "", kind=scd2)


def _ensure(spark: SparkSession, uri: LakeUri, pipeline: Pipeline, name: str, kind: ModuleType) -> None:
    """Creates a table of a kind, or adds the columns that it lacks.

    It has deletion vectors: a MERGE marks replaced rows instead of rewriting the files that hold them.
    """
    cluster_by = ", ".join(map(spark_name, pipeline.target.cluster_by))
    create_table(
        spark,
        uri,
        f"({_definitions(kind.columns(pipeline))}) USING delta "
        + (f"CLUSTER BY ({cluster_by}) " if cluster_by else "")
        + f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', {_keys_of(pipeline)})",
    )
    record_keys(spark, uri, pipeline, name)
    added = _missing_columns(uri, pipeline, name, kind)
    if added:
        columns = ", ".join(f"{'.'.join(map(spark_name, column.path))} {column.type}" for column in added)
        try:
            spark.sql(f"ALTER TABLE {spark_table(uri)} ADD COLUMNS ({columns})")
        except Exception:
            if _missing_columns(uri, pipeline, name, kind):  # else another attempt has just added them
                raise


def record_keys(spark: SparkSession, uri: LakeUri, pipeline: Pipeline, name: str, rows_replaced: bool = False) -> None:
    """Records the key columns in the table's properties.

    Args:
        rows_replaced: other rows have taken the place of the table's rows, and may have other key columns.

    Raises:
        SchemaChanged: the table has other key columns than the pipeline file.
    """
    table = open_table(uri)
    assert table is not None, "it has been created"
    found = table.metadata().configuration.get(KEYS)
    binding = None if rows_replaced else found
    if verify_keys(pipeline.name, name, pipeline.change.keys, binding) and found != _keys(pipeline):
        spark.sql(f"ALTER TABLE {spark_table(uri)} SET TBLPROPERTIES ({_keys_of(pipeline)})")


def _keys_of(pipeline: Pipeline) -> str:
    return f"{spark_text(KEYS)} = {spark_text(_keys(pipeline))}"


def _keys(pipeline: Pipeline) -> str:
    return json.dumps(list(pipeline.change.keys))


def _missing_columns(uri: LakeUri, pipeline: Pipeline, name: str, kind: ModuleType) -> tuple[Added, ...]:
    found = _columns_of(uri)
    declared, policy = kind.columns(pipeline, found), pipeline.change.on_schema_change
    return columns_to_add(pipeline.name, name, declared=declared, found=found, policy=policy)


def _columns_of(uri: LakeUri) -> dict[str, str]:
    """The types of an existing table's columns, by name."""
    table = open_table(uri)
    assert table is not None, "it has been created"
    return {field["name"]: of_delta(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}


def _kind(pipeline: Pipeline) -> ModuleType:
    """The module that makes and merges tables of the target's kind."""
    return scd2 if pipeline.change.history == "scd2" else scd1


def _definitions(columns: Iterable[Column]) -> str:
    return ", ".join(f"{spark_name(column.name)} {column.type}" for column in columns)


def create_table(spark: SparkSession, uri: LakeUri, definition: str) -> None:
    """Creates a table if there is none, even if two processes do so at once: Delta alone lets one of them fail.

    Raises:
        TerminalError: the table would lie within another table's folder, or around one.
    """
    if not log_store_of(uri).exists():
        verify_alone(uri)
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {spark_table(uri)} {definition}")
    except Exception:
        if TableLog.open(uri) is None:
            raise


def folded(
    judged: DataFrame, pipeline: Pipeline, mine: Expression | None = None, kind: ModuleType | None = None
) -> DataFrame:
    """A batch's records, folded for a table's MERGE: see the kinds, `scd1` and `scd2`.

    Args:
        mine: whether a record's changes are for the table; default: for the target. kind: the table's; default: the
            target's.
    """
    rows = dispositions(judged, pipeline, is_for(None) if mine is None else mine)
    return (kind or _kind(pipeline)).folded(rows, pipeline)


def prepared(judged: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The rows that the target's MERGE gets from a batch."""
    return changes_in(folded(judged, pipeline))


def merge_changes(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    pipeline: Pipeline,
    metadata: CommitMetadata,
    prunes: bool = False,
) -> bool:
    """MERGEs prepared changes into the target, only where they are newer than the target's rows (I9).

    A backfill's chunk also replaces a row from the very same record, which may be decoded differently today.

    Args:
        changes: kept by the attempt. prunes: the table is large, so it pays to look where the keys can be.

    Returns:
        True if this call's commit is the batch's; False if Delta found the marker there already.
    """
    again = metadata.batch.is_chunk
    merge = _merge(spark, uri, changes, pipeline, metadata=metadata, again=again, prunes=prunes)
    with marked_write(spark, metadata), settings_of(spark, merge.settings):
        return bool(spark.sql(merge.statement).collect())


def merge_beside(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    pipeline: Pipeline,
    metadata: CommitMetadata,
    replaces: bool,
    prunes: bool = False,
) -> None:
    """MERGEs prepared changes into a table beside the target: its history, or a route's.

    Args:
        replaces: the batch is there already, as an earlier attempt decoded it: what differs is written again (I11).
        changes, prunes: as for `merge_changes`.
    """
    again = replaces or metadata.batch.is_chunk
    merge = _merge(spark, uri, changes, pipeline, metadata=metadata, again=again, prunes=prunes)
    marked = with_metadata(spark, metadata.dumps()) if replaces else marked_write(spark, metadata)
    with marked, settings_of(spark, merge.settings):
        spark.sql(merge.statement).collect()


@dataclass(frozen=True)
class _Merge:
    """A MERGE whose source is the view of the changes."""

    statement: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of the session, while it runs


def _merge(
    spark: SparkSession,
    uri: LakeUri,
    changes: DataFrame,
    pipeline: Pipeline,
    metadata: CommitMetadata,
    again: bool,
    prunes: bool,
) -> _Merge:
    """The MERGE for a table's kind."""
    within = key_condition(changes, pipeline, "target") if prunes else None
    lineage = _columns_of(uri)[LINEAGE]
    if metadata.of_history:
        table = spark.read.format("delta").load(str(uri)).alias("target").where(within or "true")
        changes = scd2.spliced(table, changes, pipeline, lineage, again=metadata.batch if again else None)
        merge = _Merge(scd2.merge_statement(spark_table(uri), _CHANGES, pipeline, within))
    elif pipeline.change.truncates == "apply":
        changes = with_truncates(spark.read.format("delta").load(str(uri)), changes, pipeline, scd1.SET_AT)
        merge = _Merge(scd1.merge_statement(spark_table(uri), _CHANGES, pipeline, lineage, again=again))
    else:
        statement = scd1.merge_statement(spark_table(uri), _CHANGES, pipeline, lineage, again=again, within=within)
        merge = _Merge(statement, _KEPT_SOURCE)
    changes.createOrReplaceTempView(_CHANGES)
    return merge


def append_once(spark: SparkSession, uri: LakeUri, rows: DataFrame, metadata: CommitMetadata, **options: str) -> None:
    """Appends a batch's rows under its marker. A second call for the batch does nothing."""
    try:
        with marked_write(spark, metadata):
            rows.write.format("delta").mode("append").options(**options).save(str(uri))
    except Exception as error:
        if not is_same_marker(error):  # another attempt has just appended the same rows
            raise


def append_quarantine(spark: SparkSession, uri: LakeUri, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Appends the records that are set aside, each with its reason and every rule that it breaks. A second call for a
    batch does nothing."""
    create_table(spark, uri, f"({_QUARANTINE_COLUMNS}) USING delta")
    append_once(spark, uri, _set_aside(judged, metadata), metadata, mergeSchema="true")


def replace_quarantine(spark: SparkSession, uri: LakeUri, judged: DataFrame, metadata: CommitMetadata) -> None:
    """Replaces what an earlier attempt at the batch set aside by what this attempt sets aside."""
    batch = metadata.batch
    of_batch = f"generation = {batch.generation} AND batch_id = {batch.batch_id}"
    with with_metadata(spark, metadata.dumps()):
        rows = _set_aside(judged, metadata).write.format("delta").mode("overwrite").option("replaceWhere", of_batch)
        rows.option("mergeSchema", "true").save(str(uri))


def _set_aside(judged: DataFrame, metadata: CommitMetadata) -> DataFrame:
    batch = metadata.batch
    return judged.where("reason IS NOT NULL").selectExpr(
        *("topic", "partition", "offset", "timestamp", "key", "value", "reason"),
        f"{batch.generation} AS generation",
        f"CAST({batch.batch_id} AS BIGINT) AS batch_id",
        "rules",
        *(["headers"] if "headers" in judged.columns else []),
    )
