"""Random change streams, cut into batches at random, with ranges read again, records replayed and lost attempts taken
back in between: the table is the oracle's, and so is the history beside it.

Hundreds of streams at once: each is a case of its own, with keys and partitions of its own, and all share the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.delta_tables import query
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
from spark_jobs.engine.session import fit
from spark_jobs.tables.creating import ensure
from spark_jobs.tables.merging import prepared
from tests.support.change_streams import SHOWN, Change, Key, Semantics, history, newest, stream
from tests.support.commits import land, land_over
from tests.support.older_form import create_in_older_form, rewrite_in_older_form
from tests.support.records import RECORDS
from tests.support.world import PLACE, World, read_table


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
    stale: int = field(default=0)

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
        if self.pipeline.target.history_table:
            spec = TableSpec.of_history(self.pipeline)
            all_ = self._kept(judged, batch, spec, F.lit(True))
            of_history = CommitMetadata.of(batch, "history", counts, {}, "attempt", "test", of_history=True)
            if of_stray is None:
                land(self.spark, LakeUri(self.history), all_, spec, of_history, True, by_lane=next(self.lane))
            else:
                left = self._kept(of_stray, batch, spec, F.lit(True))
                land_over(left, self.spark, LakeUri(self.history), all_, spec, of_history)
        metadata = CommitMetadata.of(batch, "target", counts, {}, "attempt", "test")
        if of_stray is None:
            land(self.spark, LakeUri(self.table), given, self.spec, metadata, True, by_lane=next(self.lane))
            self.stale += self._stale(batch)
        else:
            left = self._kept(of_stray, batch, self.spec)
            land_over(left, self.spark, LakeUri(self.table), given, self.spec, metadata)
        if again:
            self.read_again += 1
        else:
            self.landed += 1
        if self.is_older and self.landed % 2:
            for table, spec in self.tables.items():
                rewrite_in_older_form(self.spark, LakeUri(table), spec)

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


ENGINES = [
    "lane and Spark in turns",
    pytest.param("lane", marks=pytest.mark.slow),
    pytest.param("Spark", marks=pytest.mark.slow),
]


def lanes(engine: str) -> Iterator[bool]:
    chance = Random(engine)
    return iter(lambda: {"lane": True, "Spark": False}.get(engine, chance.random() < 0.5), None)


ALL = Semantics(("seq",), patches=True, moves=True, track=("name",))
CASES = [
    pytest.param(ALL, 30, 2, id="everything"),
    pytest.param(Semantics((), moves=True), 20, 2, id="whole rows"),
    pytest.param(ALL, 500, 8, id="everything, many", marks=pytest.mark.slow),
    pytest.param(Semantics(("seq",), track=()), 500, 8, id="a column, all history", marks=pytest.mark.slow),
    pytest.param(Semantics((), moves=True), 500, 8, id="Kafka's order", marks=pytest.mark.slow),
    pytest.param(
        Semantics(("kafka.timestamp",), patches=True, track=(), by_tombstone=True),
        500,
        8,
        id="Kafka's time, tombstones",
        marks=pytest.mark.slow,
    ),
    pytest.param(Semantics(("kafka.timestamp", "seq"), patches=True), 500, 8, id="two parts", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("is_older", [False, True], ids=["", "tables of before"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("semantics", "cases", "batches"), CASES)
def test_i9_any_stream_in_any_batches_is_what_one_pass_in_order_makes(
    world: World, tmp_path: Path, semantics: Semantics, cases: int, batches: int, engine: str, is_older: bool
) -> None:
    chance = Random(f"{semantics} {cases}")
    lane = lanes(engine)
    streams = [stream(case, chance, semantics) for case in range(cases)]
    steps: list[list[Change]] = [[] for _ in range(batches)]
    for changes in streams:  # cut at random; a partition's records stay in order
        cuts = sorted(chance.randint(0, len(changes)) for _ in range(batches - 1))
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(changes)], strict=True)):
            steps[n] += changes[start:end]
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(), tmp_path, lane, is_older)
        seen, aside = list[Change](), list[Change]()
        for step in steps:
            quarantined = {id(change) for change in step if chance.random() < 0.1}
            live = [change for change in step if id(change) not in quarantined]
            another_program = chance.random() < 0.5
            replica.merge(live, stray=[c for c in live if chance.random() < 0.7] if another_program else None)
            aside += [change for change in step if id(change) in quarantined]
            seen += [change for change in step if id(change) not in quarantined]
            if chance.random() < 0.5:  # a backfill of some of what was read
                again = {change.case for change in seen if chance.random() < 0.2}
                replica.merge([change for change in seen if change.case in again and chance.random() < 0.7], again=True)
            if chance.random() < 0.3:  # a replay of what was set aside
                replica.merge(aside, again=True)
                aside = []
        replica.merge(aside, again=True)
    everything = [change for changes in streams for change in changes]
    found = rows_of(replica.table)
    assert found == newest(everything, semantics)
    assert len(found) > cases
    assert replica.stale > 0
    if semantics.track is not None:
        assert history_of(replica.history, semantics) == history(everything, semantics)
        assert_one_current_row_per_key_at_every_version(replica.history)


@pytest.mark.slow
@pytest.mark.parametrize("patches", [True, False])
def test_i9_a_column_that_is_declared_later_is_right_once_all_is_read_again(
    world: World, tmp_path: Path, patches: bool
) -> None:
    semantics = Semantics(("seq",), patches=patches, track=())
    chance, lane = Random(f"later {patches}"), lanes("lane and Spark in turns")
    streams = [stream(case, chance, semantics) for case in range(40)]
    before = [change for changes in streams for change in changes[: len(changes) // 2]]
    since = [change for changes in streams for change in changes[len(changes) // 2 :]]
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(note=""), tmp_path, lane)
        replica.merge(before)
        replica = Replica(spark, semantics.pipeline(), tmp_path, lane, landed=replica.landed)
        replica.merge(since)
        first = {change.case for change in before if chance.random() < 0.1}
        # An older change that holds the column may be read again before the newer one that does not, or does.
        for again in (lambda change: change.case in first, lambda change: change.case not in first):
            replica.merge([change for change in before if again(change)], again=True)
        newer = semantics.pipeline(note="")
        replica = Replica(spark, newer, tmp_path, lane, landed=replica.landed, read_again=replica.read_again)
        replica.merge(since, again=True)  # by an attempt that does not know the column: it stays as it is
    everything = [*before, *since]
    found = rows_of(replica.table)
    assert found == newest(everything, semantics)


def rows_of(path: str) -> dict[Key, dict[str, Any]]:
    """What readers see, by key."""
    shown = [row for row in read_table(path) if not row["_lakemark"]["deleted"]]
    return {(row["case_id"], row["id"]): {name: row[name] for name in SHOWN} for row in shown}


def history_of(path: str, semantics: Semantics) -> dict[Key, list[tuple[Any, ...]]]:
    def place_of(row: dict[str, Any]) -> list[Any]:
        told = row["_lakemark"]
        order = (row[name] if name in row else told["change_order"][name] for name in semantics.order)
        return [*order, *(told[name] for name in PLACE)]

    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    shown = [row for row in read_table(path) if row["valid_from"] is not None]
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
