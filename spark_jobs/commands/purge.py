"""Purges old tombstones: rows that are hidden already. Part of maintenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.sql import spark_table, spark_text
from include.lake.table_log import TableLog
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import FENCE
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row
from include.protocol.maintenance import PURGED, Purgeable, PurgeMark, purgeable, purged_from, purged_to_text, raised
from include.settings import Settings

_VIEW = "lakemark_purged"
_IS_OLD = (
    f"target.{LINEAGE}.deleted AND target.{LINEAGE}.topic = old.topic AND target.{LINEAGE}.partition = old.partition "
    f"AND target.{LINEAGE}.offset < old.below AND (target.{LINEAGE}.generation BETWEEN 1 AND old.newest "
    f"OR array_contains(old.backfills, target.{LINEAGE}.generation))"
)
_MARKS = "marks of purged tombstones"
_LEFT = "left the tombstones: a backfill is under way, or a reset"


@dataclass(frozen=True)
class Purge:
    """The purge of one pipeline's target.

    Args:
        commit: runs a statement on the target, by its name for people, and returns what was done.
    """

    spark: Callable[[], SparkSession]
    settings: Settings
    pipeline: Pipeline
    commit: Callable[[str, str], list[str]]

    def run(self) -> list[str]:
        """Purges old tombstones. Before that, it records what it is about to purge.

        A backfill or a reset reads records again. If somebody decided on it before, this method sees it, and the
        tombstones stay. Otherwise the backfill or the reset sees the record: a backfill when it is recorded; a reset by
        its fence, which lands only on the version of the target that the reset was decided on.
        """
        days = self.pipeline.maintenance.purge_tombstones_after_days
        if days is None or open_table(self._tables.target) is None:
            return []
        before = datetime.now(UTC) - timedelta(days=days)
        due = self._due(before)
        marks = self._marks(due or [])
        if not marks:
            return [_LEFT] if due is None else []
        known = purged_from(self._target_log().table.metadata().configuration)
        if (wanted := raised(known, marks)) != known:
            text = spark_text(purged_to_text(wanted))
            target = spark_table(self._tables.target)
            did = self.commit(_MARKS, f"ALTER TABLE {target} SET TBLPROPERTIES ('{PURGED}' = {text})")
            if did != [_MARKS]:
                return did
        if self._due(before) != due:
            return [_LEFT]
        return self.commit("purged tombstones", self._purge_statement(due or [], marks))

    def _due(self, before: datetime) -> list[Purgeable] | None:
        """The tombstones that may be purged now; None if records are being read again, or are about to be."""
        rows = [(row["recorded_at"], from_row(row)) for row in Ledger(self._tables.ledger).rows()]
        state = fold(event for _, event in rows)
        is_fenced = self._target_log().marker(self.pipeline.name, state.generation) == FENCE
        if is_fenced or any(record.outcome is None for record in state.backfills.values()):
            return None
        return purgeable(rows, before)

    def _marks(self, due: Sequence[Purgeable]) -> list[PurgeMark]:
        """Up to which offsets there is something to purge. A partition without anything to purge gets no mark."""
        if not due:
            return []
        rows = self.spark().table(spark_table(self._tables.target)).alias("target")
        found = (
            rows.join(F.broadcast(self._positions(due).alias("old")), F.expr(_IS_OLD))
            .groupBy("old.place")
            .agg((F.max(f"target.{LINEAGE}.offset") + 1).alias("below"))
        )
        return [due[row["place"]].to(row["below"]) for row in found.collect()]

    def _purge_statement(self, due: Sequence[Purgeable], marks: Sequence[PurgeMark]) -> str:
        """The statement that deletes the tombstones below these marks. It is a MERGE, so that names of topics are data:
        Delta takes no parameters in a DELETE, and not every Spark Connect server has its builder."""
        of = {(mark.topic, mark.partition): mark for mark in marks}
        purged = [replace(p, offset=of[key].offset) for p in due if (key := (p.topic, p.partition)) in of]
        self._positions(purged).createOrReplaceTempView(_VIEW)
        return (
            f"MERGE INTO {spark_table(self._tables.target)} AS target USING {_VIEW} AS old ON {_IS_OLD} "
            "WHEN MATCHED THEN DELETE"
        )

    def _positions(self, due: Sequence[Purgeable]) -> DataFrame:
        rows = [(n, p.topic, p.partition, p.offset, p.last_generation, list(p.backfills)) for n, p in enumerate(due)]
        schema = "place INT, topic STRING, partition INT, below BIGINT, newest INT, backfills ARRAY<INT>"
        return self.spark().createDataFrame(rows, schema)

    def _target_log(self) -> TableLog:
        log = TableLog.open(self._tables.target)
        assert log is not None, "it was there a moment ago"
        return log

    @property
    def _tables(self) -> Tables:
        return Tables.of(self.settings, self.pipeline)
