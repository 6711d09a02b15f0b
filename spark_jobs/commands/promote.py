"""Puts the table that a backfill has made in the target's place.

Rows, fence and the live pipeline's next offsets are in one commit of the target. So readers see either the old rows or
the new ones, and nothing that lands in between is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.control.turns import turn
from include.lake.delta_tables import OpenedTable, open_table, query
from include.lake.sql import spark_table, sql_name
from include.lake.uri import LakeUri
from include.participants.fence import Fence
from include.pipeline_file import IS_CURRENT, Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.backfill import Backfill
from include.protocol.batch import FENCE
from include.protocol.commit_metadata import FORMAT, MAINTENANCE_ROLE
from include.protocol.errors import TerminalError
from include.protocol.generations import take_over
from include.protocol.ledger_events import PROMOTION, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import PURGED, purged_from
from include.protocol.planning import SourceExtent
from include.settings import Settings
from spark_jobs.engine.failures import classed
from spark_jobs.engine.marking import marked, with_metadata
from spark_jobs.tables.creating import ensure, replace_rules


def promote(spark: SparkSession, settings: Settings, pipeline: Pipeline, number: int, started_by: str) -> None:
    """Checks the new table and lets it take the target's place. The live pipeline goes on in a new generation, from
    where the backfill was planned, and applies what came since. A second call finishes what a first one left undone.

    Raises:
        TerminalError: the table is not fit to be the target. RetryableError: chunks are missing, or Kafka does not
        answer. FencedGeneration: the table was promoted or cancelled before.
    """
    coordinator, spec = Coordinator(settings, pipeline), TableSpec.of_target(pipeline)
    backfill = coordinator.ledger.state().backfill(pipeline.name, number)
    uri = coordinator.tables.target_of(backfill)
    if backfill.into != "new":
        raise _refused(backfill, "a backfill into a new table", "one into the target itself")
    Backfills(coordinator).verify_landed(backfill)
    _one_row_per_key(pipeline, backfill, uri)

    def bring_rows(table: OpenedTable, markers: Mapping[str, int], metadata: str) -> bool:
        """Makes the commit that fences the old generation and replaces all rows. False if an attempt was faster."""
        if len(markers) != 1:
            raise _refused(
                backfill, "a target in which one generation has no fence yet", f"{len(markers)} without a fence"
            )
        [(app_id, fence)] = markers.items()
        target = coordinator.tables.target
        writer = spark.table(spark_table(uri)).write.format("delta").mode("overwrite")
        if spark.table(spark_table(uri)).schema != spark.table(spark_table(target)).schema:
            writer = writer.option("overwriteSchema", "true")  # the pipeline file has other columns now
        try:
            with marked(spark, app_id, fence, metadata):
                writer.save(str(target))
        except Exception as error:
            if table.version() != _version(target) and _marker(target, app_id) != FENCE:
                return False
            if _marker(target, app_id) != FENCE:
                raise classed(
                    error,
                    pipeline=pipeline.name,
                    where=f"{pipeline.name} backfill {number}",
                    phase="promotion",
                    may_have_landed=True,
                ) from error
        replace_rules(spark, target, spec)
        return True

    def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
        return take_over(backfill, state, source, started_by)

    target = coordinator.tables.target
    if open_table(target) is None:
        ensure(spark, target, spec)
    if begun := coordinator.ledger.state().generations:  # a target that was lost, and made anew, may lack old fences
        Fence(settings, pipeline, begun[-1]).raise_in(target, is_point=True)
    with turn(coordinator.ledger, f"the promotion of backfill {number}"):
        GenerationChange(coordinator, fence_target=bring_rows).begin_from(f"{PROMOTION}{number}", decide)
    _forget_purges(spark, pipeline, coordinator.tables.target)
    # A first call may have been killed before it did this.
    replace_rules(spark, coordinator.tables.target, spec)
    Backfills(coordinator).end(number, "swapped", started_by)


def _forget_purges(spark: SparkSession, pipeline: Pipeline, target: LakeUri) -> None:
    """Removes the marks of purged tombstones: the new table holds every delete again. Maintenance does not purge before
    the backfill has ended."""
    table = open_table(target)
    if table is None or not purged_from(table.metadata().configuration):
        return
    told = {"lakemark": FORMAT, "role": MAINTENANCE_ROLE, "pipeline": pipeline.name}
    with with_metadata(spark, json.dumps(told)):
        spark.sql(f"ALTER TABLE {spark_table(target)} UNSET TBLPROPERTIES ('{PURGED}')").collect()


def _one_row_per_key(pipeline: Pipeline, backfill: Backfill, uri: LakeUri) -> None:
    keys = ", ".join(map(sql_name, pipeline.change.keys))
    table = open_table(uri)
    assert table is not None, "its chunks have landed"
    current = f"where {IS_CURRENT}" if pipeline.change.history == "scd2" else ""
    [row] = query(
        table, f"select count(*) as n from (select {keys} from t {current} group by {keys} having count(*) > 1)"
    )
    if row["n"]:
        raise _refused(
            backfill, f"one row for every key ({keys}), in history one current row", f"{row['n']} keys with several"
        )


def _version(uri: LakeUri) -> int | None:
    table = open_table(uri)
    return table.version() if table else None


def _marker(uri: LakeUri, app_id: str) -> int | None:
    table = open_table(uri)
    return table.transaction_version(app_id) if table else None


def _refused(backfill: Backfill, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this table cannot take the target's place",
        where=f"{backfill.pipeline} backfill {backfill.number}",
        expected=expected,
        found=found,
        action=f"nothing was changed; `lakemark backfill {backfill.pipeline} --cancel {backfill.number}` ends it, and "
        f"`lakemark audit {backfill.pipeline}` looks at the target",
    )
