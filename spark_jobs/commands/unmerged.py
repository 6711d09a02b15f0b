"""The target as if all that has landed in the archive were merged: for those who cannot wait for the next MERGE."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.ledger import Ledger
from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.quality.judge import judge_of
from include.settings import Settings
from include.sources.landing import LandingSource
from spark_jobs.changes.decode import decode
from spark_jobs.changes.transform import transformation
from spark_jobs.tables.archive import read_archive
from spark_jobs.tables.writing import prepared

VIEW = "fresh"


def unmerged_view(spark: SparkSession, settings: Settings, pipeline: Pipeline) -> DataFrame:
    """The rows that readers of the target will see, columns as there, as of this call.

    What waits in the archive is decoded, judged and reduced as a batch would be; a row of the target is replaced where
    its key has a newer change. Nothing is written, and nothing is taken back: offsets move only with the MERGE.

    Raises:
        TerminalError: not a table of one row per key, whose changes are whole rows.
    """
    _verify_within_reach(pipeline)
    tables = Tables.of(settings, pipeline)
    merged = Ledger(tables.ledger).recent()  # before the target: what has landed meanwhile is older than itself
    landed = LandingSource.of(settings, pipeline)
    batch = landed.unmerged(pipeline.name, merged)
    target = spark.read.format("delta").load(str(tables.target))
    if batch is None:
        return target.where(pipeline.seen_by_readers)
    transform = transformation(spark, settings, pipeline, batch)
    records = read_archive(spark, landed.uri, pipeline.source, batch)
    judged = decode(records, pipeline, batch, judge_of(settings, pipeline), transform)
    changes = prepared(judged, pipeline).select(*target.columns)
    t, c = target.alias("t"), changes.alias("c")
    same = F.expr(" AND ".join(f"t.{spark_name(key)} = c.{spark_name(key)}" for key in pipeline.change.keys))
    order = f"{LINEAGE}.change_order"
    newer = F.expr(f"t.{order} IS NULL OR c.{order} > t.{order}")
    kept, come = t.join(c, same & newer, "left_anti"), c.join(t, same & ~newer, "left_anti")
    return kept.union(come).where(pipeline.seen_by_readers)


def _verify_within_reach(pipeline: Pipeline) -> None:
    settings = {
        "merge_every": None if pipeline.merge_every else "null: the target is never behind",
        "change.history": pipeline.change.history if pipeline.change.history == "scd2" else None,
        "change.absent": "keep" if pipeline.partial_columns else None,
        "change.truncates": "apply" if pipeline.change.truncates == "apply" else None,
    }
    beyond = [f"{name}: {value}" for name, value in settings.items() if value]
    if beyond:
        raise TerminalError(
            what="there is no fresher view of this pipeline's table",
            where=pipeline.name,
            expected="merge_every, and one row per key, of changes that are whole rows",
            found="; ".join(beyond),
            action="read the target itself",
        )
