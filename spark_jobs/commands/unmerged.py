"""Shows the target as if everything in the archive were merged: for readers who cannot wait for the next MERGE."""

from __future__ import annotations

import json

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.fresh_view import FRESH, verify_has_view
from include.pipeline_file.table_spec import TableSpec
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.quality.judge import judge_of
from include.settings import Settings
from include.sources.landing import LandingSource
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.changes.transform import transformation
from spark_jobs.engine.failures import text_of
from spark_jobs.tables.archive import read_archive
from spark_jobs.tables.creating import columns_of
from spark_jobs.tables.lineage import in_form, is_ours, named_struct, order_of
from spark_jobs.tables.merging import prepared

_ROWS_MAX = 10_000


def answer_fresh(spark: SparkSession, settings: Settings, pipeline: Pipeline, sql: str) -> list[JsonObject]:
    """The rows of a query over the view `fresh`, as data.

    Raises:
        TerminalError: nothing has landed yet; or Spark does not take the query; or as `as_if_merged`.
    """
    as_if_merged(spark, settings, pipeline).createOrReplaceTempView(FRESH)
    try:
        rows = spark.sql(sql).select(F.to_json(F.struct("*"))).limit(_ROWS_MAX).collect()
    except PySparkException as error:
        raise TerminalError(
            what="this query cannot be answered",
            where=f"{pipeline.name}: {sql[:500]}",
            expected=f"Spark's SQL over the view `{FRESH}`",
            found=text_of(error)[:1000],
            action="change the query",
        ) from error
    return [json.loads(row[0]) for row in rows]


def as_if_merged(spark: SparkSession, settings: Settings, pipeline: Pipeline) -> DataFrame:
    """The target's rows as readers would see them if everything that has landed were merged, as of this call.

    Records that wait in the archive are decoded, judged and reduced like a batch. A row of the target is replaced if
    its key has a newer change. Nothing is written, and offsets move only with the MERGE.

    Raises:
        TerminalError: the pipeline merges every batch at once, the target keeps history, its changes are not whole
            rows, or it applies truncates; or there is no target yet.
    """
    verify_has_view(pipeline)
    tables = Tables.of(settings, pipeline)
    if open_table(tables.target) is None:
        raise TerminalError(
            what="nothing was merged yet, so there is no table to look at",
            where=f"{pipeline.name}, {tables.target}",
            expected="a target",
            found="no table",
            action=f"`lakemark run {pipeline.name}` makes it",
        )
    # Read first. A batch that is merged before the next read is in both. Its changes are then not newer than the
    # target's rows.
    merged = Ledger(tables.ledger).recent()
    landed = LandingSource.of(settings, pipeline)
    batch = landed.unmerged(pipeline.name, merged)
    target = spark.read.format("delta").load(str(tables.target))
    if batch is None:
        return target.where(pipeline.seen_by_readers)
    transform = transformation(spark, settings, pipeline, batch)
    records = read_archive(spark, landed.uri, pipeline.source, batch)
    judged = decode(records, pipeline, judge=judge_of(settings, pipeline), transform=transform)
    spec, lineage = TableSpec.of_target(pipeline), columns_of(tables.target)[LINEAGE]
    changes = prepared(dispositions(judged, pipeline), spec, batch)
    of_table = F.expr(named_struct(in_form(spec, lineage))).alias(LINEAGE)
    changes = changes.withColumn(LINEAGE, of_table).select(*target.columns)
    t, c = target.alias("t"), changes.alias("c")
    same = F.expr(" AND ".join(f"t.{spark_name(key)} = c.{spark_name(key)}" for key in pipeline.change.keys))
    newer = F.expr(f"NOT ({is_ours('t.')}) OR {order_of(spec, lineage, 'c.')} > {order_of(spec, lineage, 't.')}")
    kept, come = t.join(c, same & newer, "left_anti"), c.join(t, same & ~newer, "left_anti")
    return kept.union(come).where(pipeline.seen_by_readers)
