"""What a pipeline's batches and chunks leave in its tables, without Kafka, ledger and attempts: for random streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.delta_tables import query
from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from include.protocol.settlement import counts_of
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.tables.creating import ensure
from spark_jobs.tables.merging import prepared
from tests.support.change_streams import SHOWN, Change, Key, Semantics
from tests.support.commits import land, land_over
from tests.support.older_form import create_in_older_form, rewrite_in_older_form
from tests.support.records import RECORDS
from tests.support.world import PLACE


@dataclass
class Replica:
    """Merges records into a table, and into its history, as batches and backfill chunks do."""

    spark: SparkSession
    pipeline: Pipeline
    folder: Path
    lane: Iterator[bool]  # for each landing in turn: whether the lane does it
    is_older: bool = False  # the tables are of a Lakemark from before, which has also written half of the batches
    landed: int = 0
    read_again: int = 0
    stale: int = 0
    commits: int = 0  # of all tables
    _seen: dict[str, Snapshot] = field(default_factory=dict)  # by table: as the lane saw it last

    def __post_init__(self) -> None:
        for table, spec in self.tables.items():
            if self.is_older:
                create_in_older_form(self.spark, LakeUri(table), spec)
            ensure(self.spark, LakeUri(table), spec)

    @property
    def tables(self) -> dict[str, TableSpec]:
        has_history = self.pipeline.target.history_table
        return {self.table: self.spec, **({self.history: TableSpec.of_history(self.pipeline)} if has_history else {})}

    @property
    def spec(self) -> TableSpec:
        return TableSpec.of_target(self.pipeline)

    @property
    def table(self) -> str:
        return str(self.folder / "table")

    @property
    def history(self) -> str:
        return str(self.folder / "history")

    def merge(self, changes: list[Change], again: bool = False, stray: list[Change] | None = None) -> None:
        """Args: stray: what an attempt with another program has landed of them before, in all tables."""
        if not changes:
            return
        ends: dict[int, list[int]] = defaultdict(list)
        for change in changes:
            ends[change.partition].append(change.offset)
        ranges = tuple(OffsetRange("t", p, min(at), max(at) + 1) for p, at in sorted(ends.items()))
        generation, number = (-1, self.read_again) if again else (1, self.landed)
        batch = Batch("p", generation, number, ranges, {"t": "id"}, "cluster")
        judged = self._judged(changes)
        of_stray = None if stray is None else self._judged(stray)
        given = self._kept(judged, batch, self.spec)
        moved = sum(change.old_id not in (None, change.id) for change in changes)
        counts = SourceCounts(len(changes), 0, 0, len(changes) + moved - (kept := given.count()), kept, moved)
        metadata = CommitMetadata.of(batch, "target", counts, {}, "attempt", "test")
        if self.pipeline.target.history_table:
            spec = TableSpec.of_history(self.pipeline)
            all_ = self._kept(judged, batch, spec, F.lit(True))
            left = None if of_stray is None else self._kept(of_stray, batch, spec, F.lit(True))
            of_history = CommitMetadata.of(batch, "history", counts, {}, "attempt", "test", of_history=True)
            self._land(self.history, left, all_, spec, of_history)
        left = None if of_stray is None else self._kept(of_stray, batch, self.spec)
        self._land(self.table, left, given, self.spec, metadata)
        if stray is None:
            self.stale += self._stale(batch)
        if again:
            self.read_again += 1
        else:
            self.landed += 1
        if self.is_older and self.landed % 2:
            for table, spec in self.tables.items():
                rewrite_in_older_form(self.spark, LakeUri(table), spec)

    def _land(
        self, table: str, stray: DataFrame | None, rows: DataFrame, spec: TableSpec, metadata: CommitMetadata
    ) -> None:
        """Lands rows of a batch, over what another program has landed of it before."""
        uri = LakeUri(table)
        if stray is not None:
            land_over(stray, self.spark, uri, rows, spec, metadata)
        else:
            self._seen[table] = self._seen.get(table) or Snapshot.of(uri)
            land(self.spark, uri, rows, spec, metadata, True, by_lane=next(self.lane), seen=self._seen[table])
        self.commits += 1

    def _kept(self, judged: DataFrame, batch: Batch, spec: TableSpec, *mine: Column) -> DataFrame:
        """What a table's MERGE gets. As an attempt does, it is computed once, and kept."""
        return prepared(dispositions(judged, self.pipeline, *mine), spec, batch).localCheckpoint(eager=True)

    def _judged(self, changes: list[Change]) -> DataFrame:
        records = self.spark.createDataFrame([change.row() for change in changes], RECORDS)
        return decode(records, self.pipeline).localCheckpoint(eager=True)

    def _stale(self, batch: Batch) -> int:
        """How many changes the last commit found stale. Raises if its counts do not add up."""
        log = TableLog.open(LakeUri(self.table))
        assert log is not None
        landed = log.landed(batch)
        assert landed is not None
        return counts_of(landed, str(batch)).stale


def lanes(engine: str) -> Iterator[bool]:
    chance = Random(engine)
    return iter(lambda: {"lane": True, "Spark": False}.get(engine, chance.random() < 0.5), None)


def rows_of(table: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What a table shows, by key, of all its rows as one reader sees them."""
    shown = [row for row in table if not row["_lakemark"]["deleted"]]
    found = {(row["case_id"], row["id"]): {name: row[name] for name in SHOWN} for row in shown}
    assert len(found) == len(shown), "no key has two rows"
    return found


def history_of(table: list[dict[str, Any]], semantics: Semantics) -> dict[Key, list[tuple[Any, ...]]]:
    """What a history shows, by key, oldest first: valid_from, valid_to, is_current, and the row."""

    def place_of(row: dict[str, Any]) -> list[Any]:
        told = row["_lakemark"]
        order = (row[name] if name in row else told["change_order"][name] for name in semantics.order)
        return [*order, *(told[name] for name in PLACE)]

    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    shown = [row for row in table if row["valid_from"] is not None]
    for row in sorted(shown, key=place_of):
        image = {name: row[name] for name in SHOWN}
        found[row["case_id"], row["id"]].append((row["valid_from"], row["valid_to"], row["is_current"], image))
    return found


def assert_one_current_row_per_key_at_every_version(path: str) -> None:
    last = DeltaTable(path).version()
    assert last > 1
    for version in range(1, last + 1):
        several = "select case_id, id from t where is_current group by case_id, id having count(*) > 1"
        assert query(DeltaTable(path, version=version), several) == []
