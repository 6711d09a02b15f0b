"""Keeps a pipeline's tables quick to read and small on disk, beside its live batches.

A rule sets the size of every step. A step may lose against a batch: then it is tried again, and in the end left for the
next time. No step changes a row that a reader sees; purging tombstones removes rows that are hidden already.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import SparkSession

from include.checkpoints.retention import freeze_due, kept_in, kept_of
from include.control import older_files
from include.control.spent_tables import remove_spent_tables
from include.control.turns import turn
from include.lake.data_files import file_of_int96
from include.lake.delta_tables import open_table, verify_alone
from include.lake.ledger import Ledger
from include.lake.log_cleaning import clean_log
from include.lake.sql import spark_name, spark_table
from include.lake.stores import files_at
from include.lake.upkeep import forget_unfinished, keep_appended, shape_of
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline, Upkeep
from include.pipeline_file.tables import Tables
from include.protocol.commit_metadata import FORMAT, MAINTENANCE_ROLE
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import MaintenanceEnded
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import (
    TableShape,
    wants_optimize,
)
from include.quality.evidence import forget
from include.settings import Settings
from spark_jobs.commands.purge import Purge
from spark_jobs.commands.vacuum import inventory
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.failures import classed, is_conflict
from spark_jobs.engine.marking import settings_of, with_metadata

_TRIES = 5
_APPENDED = ("ledger", "quality", "resolutions")  # tables that are written without Spark
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_REWRITTEN = "rewrote INT96"
# By default, Delta sorts only by a column that has statistics, and does not touch clusters that have reached 100 GB.
_ANY_COLUMN = {"spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false"}
_ANY_SIZE = {"spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(1 << 62)}


@dataclass(frozen=True)
class Maintenance:
    """The upkeep of one pipeline's tables.

    Args:
        spark: gives a session. Of a quiet pipeline, mostly nothing is due that needs one. started_by: for the ledger.
            say: takes progress as JSON data.
    """

    spark: Callable[[], SparkSession]
    settings: Settings
    pipeline: Pipeline
    started_by: str
    say: SayFact

    def run(self) -> JsonObject:
        """Does what is due, and returns what has changed, as data: maintained (the pipeline), tables (by role: did,
        before, after; see `TableShape`), removed (tables that nobody needs), kept (by role, what
        checkpoints need and the newest version does not: see `Kept`), keeps_versions (see `Files`), seconds.

        Raises:
            TableDamaged: see there. OutcomeUnknownError: the disk is full, or an answer was lost; the next run does
            what is due then.
        """
        began = time.monotonic()
        freeze_due(self.settings, self.pipeline)  # before any log is cleaned up
        before = {role: self._shape(role) for role in self._places}
        forgot = self._forget_judgements()
        did = {
            "target": [*self._purge.run(), *self._keep("target")],
            **{p.name: self._keep(p.name) for p in self._catalog.before},
            **{role: keep_appended(self._places[role], self._rules.vacuum_after_hours) for role in _APPENDED},
        }
        did["quality"] = [*forgot, *did["quality"]]
        did = {role: [*done, *forget_unfinished(self._places[role])] for role, done in did.items()}
        after = {role: self._shape(role) for role in self._places}
        removed = remove_spent_tables(self._tables, self._state())
        self._record()
        return {
            "maintained": self.pipeline.name,
            "tables": {
                role: {"did": did[role], "before": shape.to_json(), "after": (after[role] or shape).to_json()}
                for role, shape in before.items()
                if shape is not None
            },
            "removed": list(map(str, removed)),
            "kept": {role: kept.to_json() for role, kept in kept_in(self.settings, self.pipeline).items()},
            "keeps_versions": files_at(self.settings.lake).keeps_versions(self.settings.lake),
            "seconds": round(time.monotonic() - began, 1),
        }

    def _record(self) -> None:
        ledger, now = Ledger(self._tables.ledger), datetime.now(UTC).isoformat(timespec="seconds")
        if ledger.created_at() is not None:
            ledger.append(lambda state: [MaintenanceEnded(state.generation, now, self.started_by)], about=None)

    def _keep(self, role: str) -> list[str]:
        did = [*self._rewrite_int96(role), *self._optimize(role), *self._vacuum(role)]
        thinned = clean_log(self._places[role])
        return [*did, *([f"removed {thinned} old checkpoints"] if thinned else [])]

    def _rewrite_int96(self, role: str) -> list[str]:
        """Rewrites files that hold timestamps as INT96, which Spark writes by default."""
        if not self._holds_int96(role):
            return []
        table, keys = spark_table(self._places[role]), self._keys(role)
        clusters = self.spark().sql(f"DESCRIBE DETAIL {table}").select("clusteringColumns").collect()[0][0]
        if not clusters:
            # A plain OPTIMIZE does not rewrite large files, nor single ones.
            every, settings = f"OPTIMIZE {table} ZORDER BY ({spark_name(keys[0])})", _ANY_COLUMN
            return self._commit(role, _REWRITTEN, every, settings)
        every = f"OPTIMIZE {table} FULL"
        done = self._commit(role, _REWRITTEN, every, _ANY_SIZE)
        if self._holds_int96(role):
            # OPTIMIZE does not rewrite files that it has clustered until there is another file. So this puts one row,
            # unchanged, into a file of its own.
            same = " AND ".join(f"t.{spark_name(key)} <=> s.{spark_name(key)}" for key in keys)
            self._commit(
                role,
                _REWRITTEN,
                f"MERGE INTO {table} AS t USING (SELECT {', '.join(map(spark_name, keys))} FROM {table} LIMIT 1) AS s "
                f"ON {same} WHEN MATCHED THEN UPDATE SET t.{spark_name(keys[0])} = s.{spark_name(keys[0])}",
            )
            done = self._commit(role, _REWRITTEN, every, _ANY_SIZE)
        return done

    def _holds_int96(self, role: str) -> bool:
        table = open_table(self._places[role])
        return table is not None and file_of_int96(table) is not None

    def _keys(self, role: str) -> Sequence[str]:
        """Columns that tell the table's rows apart, or nearly so."""
        [keys] = [p.spec.keys for p in self._catalog.participants if p.name == role]
        return keys

    def _optimize(self, role: str) -> list[str]:
        """Makes large files from small ones, drops rows that deletion vectors hide, and clusters clustered tables."""
        shape = self._shape(role)
        if shape is None or not wants_optimize(shape, self._rules.small_files_max):
            return []
        return self._commit(role, "OPTIMIZE", f"OPTIMIZE {spark_table(self._places[role])}")

    def _vacuum(self, role: str) -> list[str]:
        shape = self._shape(role)
        if shape is None or not shape.removable_files:
            return []
        # Nobody takes up an old version between this look at what is needed and the removal of what is not.
        with turn(Ledger(self._tables.ledger), f"maintenance: VACUUM of the {role}", over="files"):
            return self._vacuumed(role)

    def _vacuumed(self, role: str) -> list[str]:
        [participant] = (p for p in self._catalog.participants if p.name == role)
        found = kept_of(self.settings, self.pipeline, participant)  # OPTIMIZE has just made others of some files
        kept = found.names if found is not None else {}
        shape = shape_of(self._places[role], self._rules.vacuum_after_hours, kept)
        if shape is None or not shape.removable_files:
            return []
        if older_files.are_needed(self.settings, self.pipeline, role):
            return ["left VACUUM: the next batch or delivery may need older files"]
        verify_alone(self._places[role])  # another table in this folder is not ours to remove
        table, hours = spark_table(self._places[role]), self._rules.vacuum_after_hours
        spares = f"USING INVENTORY {inventory(self.spark(), self._places[role], kept)} " if kept else ""
        # As many tasks list folders, and remove files, as there are cores. Delta's default of 10,000 costs half a
        # minute, even if there are few folders.
        settings = {_LISTING: str(os.cpu_count() or 1), "spark.databricks.delta.vacuum.parallelDelete.enabled": "true"}
        return self._commit(role, "VACUUM", f"VACUUM {table} {spares}RETAIN {hours:g} HOURS", settings)

    def _forget_judgements(self) -> list[str]:
        days = self._rules.keep_judgements_days
        if days is None:
            return []
        forgotten = forget(self._tables.quality, datetime.now(UTC) - timedelta(days=days))
        return [f"forgot {forgotten} old results of rules"] if forgotten else []

    def _commit(self, role: str, name: str, statement: str, settings: Mapping[str, str] | None = None) -> list[str]:
        """Runs one statement. If a batch was faster, it takes a turn, and repeats it."""
        self.say({"progress": f"{name.lower()} of the {role}"})
        spark, metadata = self.spark(), {"lakemark": FORMAT, "role": MAINTENANCE_ROLE, "pipeline": self.pipeline.name}
        for number in range(_TRIES):
            try:
                with ExitStack() as stack:
                    if number > 0:
                        stack.enter_context(turn(Ledger(self._tables.ledger), f"maintenance: {name} of the {role}"))
                    stack.enter_context(with_metadata(spark, json.dumps(metadata)))
                    stack.enter_context(settings_of(spark, settings or {}))
                    spark.sql(statement).collect()
                return [name]
            except Exception as error:
                if not is_conflict(error):
                    raise classed(
                        error,
                        pipeline=self.pipeline.name,
                        where=f"{self.pipeline.name}, {role}",
                        phase=name,
                        may_have_landed=True,
                    ) from error
        return [f"left {name} for the next time: batches were faster {_TRIES} times"]

    def _shape(self, role: str) -> TableShape | None:
        uri = self._places.get(role)
        return None if uri is None else shape_of(uri, self._rules.vacuum_after_hours)

    def _state(self) -> LedgerState:
        return Ledger(self._tables.ledger).state()

    @property
    def _purge(self) -> Purge:
        return Purge(self.spark, self.settings, self.pipeline, partial(self._commit, "target"))

    @property
    def _rules(self) -> Upkeep:
        return self.pipeline.maintenance

    @property
    def _tables(self) -> Tables:
        return Tables.of(self.settings, self.pipeline)

    @property
    def _places(self) -> dict[str, LakeUri]:
        appended = {role: getattr(self._tables, role) for role in _APPENDED}
        return {**{p.name: p.uri(self.settings) for p in self._catalog.participants}, **appended}

    @property
    def _catalog(self) -> Catalog:
        return Catalog.of(self.pipeline)
