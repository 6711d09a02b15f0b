"""Random change streams, cut into batches at random, with ranges read again and records replayed in between: the table
is the oracle's, and so is the history beside it.

Hundreds of streams at once: each is a case of its own, with keys and partitions of its own, and all share the batches.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.lake.delta_tables import query
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from include.protocol.settlement import counts_of
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import changes_in
from spark_jobs.engine.session import fit
from spark_jobs.tables import scd2
from spark_jobs.tables.writing import ensure_history, ensure_target, folded, merge_beside, merge_changes, prepared
from tests.support.records import RECORDS
from tests.support.world import World, read_table

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_SHOWN = ("name", "note")
Key = tuple[int, int]


@dataclass(frozen=True)
class Semantics:
    """What a pipeline file may ask for."""

    order: tuple[str, ...]
    patches: bool = False  # absent: keep
    moves: bool = False  # previous_keys
    track: tuple[str, ...] | None = None  # None: no history; (): of all columns
    by_tombstone: bool = False  # how rows are deleted

    def pipeline(self, note: str = "note STRING, ") -> Pipeline:
        change = {
            "keys": ["case_id", "id"],
            "order_by": list(self.order),
            "delete_when": "op = 'd'",
            "tombstones": "delete" if self.by_tombstone else None,
            "absent": "keep" if self.patches else None,
            "previous_keys": {"id": "old_id"} if self.moves else {},
            "track_columns": list(self.track or ()),
        }
        source = {
            "bootstrap_servers": "k",
            "topics": ["t"],
            "schema": f"case_id INT, id INT, seq INT, name STRING, {note}old_id INT, op STRING",
            "key": "json",
        }
        history = None if self.track is None else "lake://silver/p_history"
        target = {"table": "lake://silver/p", "history_table": history}
        return Pipeline.model_validate({"name": "p", "source": source, "change": change, "target": target})


@dataclass(frozen=True)
class Change:
    """One record of a case: what Kafka has, and what the oracle knows of it."""

    case: int
    id: int
    seq: int
    sets: dict[str, str | None] | None  # None: a delete
    old_id: int | None
    partition: int
    offset: int
    at: datetime
    is_tombstone: bool

    def row(self) -> tuple[bytes, bytes | None, str, int, int, datetime]:
        key = {"case_id": self.case, "id": self.id}
        moved = {} if self.old_id is None else {"old_id": self.old_id}
        value = {**key, "seq": self.seq, **moved, **(self.sets or {}), "op": "d" if self.sets is None else "u"}
        raw = None if self.is_tombstone else json.dumps(value).encode()
        return json.dumps(key).encode(), raw, "t", self.partition, self.offset, self.at

    def place(self, order: tuple[str, ...]) -> tuple[Any, ...]:
        given = {"seq": self.seq, "kafka.timestamp": self.at}
        return (*(given[name] for name in order), self.partition, self.offset)


def stream(case: int, chance: Random, semantics: Semantics) -> list[Change]:
    """Few keys, few order values, few names: ties, disorder, deletes and equal states meet often."""
    found: list[Change] = []
    offsets: dict[int, int] = defaultdict(int)
    for _ in range(chance.randint(4, 30)):
        id_ = chance.randint(1, 4)
        partition = 2 * case + id_ % 2
        deleted = chance.random() < 0.2
        sets: dict[str, str | None] | None = None
        if not deleted:
            kept = [name for name in _SHOWN if not semantics.patches or chance.random() < 0.6]
            sets = {name: chance.choice(["a", "b", None]) for name in kept}
        old_id = chance.randint(1, 4) if semantics.moves and not deleted and chance.random() < 0.2 else None
        at = _BEGAN + timedelta(milliseconds=chance.randint(0, 5))
        tombstone = semantics.by_tombstone and deleted
        found.append(
            Change(case, id_, chance.randint(0, 6), sets, old_id, partition, offsets[partition], at, tombstone)
        )
        offsets[partition] += chance.randint(1, 2)  # Kafka leaves gaps
    return found


# The oracle: what the words of docs/semantics.md say, over all records at once. It knows nothing of the product.


def by_key(changes: list[Change], order: tuple[str, ...]) -> dict[Key, list[Change]]:
    """The changes of every key, oldest first; one that moves a row is a delete of the key that it had."""
    found: dict[Key, list[Change]] = defaultdict(list)
    for change in changes:
        found[change.case, change.id].append(change)
        if change.old_id not in (None, change.id):
            found[change.case, change.old_id].append(replace(change, id=change.old_id, sets=None))
    return {key: sorted(those, key=lambda change: change.place(order)) for key, those in found.items()}


def images(changes: list[Change], patches: bool) -> Iterator[tuple[Change, dict[str, str | None] | None]]:
    """What the row is after each change; None: there is none."""
    row: dict[str, str | None] | None = None
    for change in changes:
        blank = dict.fromkeys(_SHOWN)
        row = None if change.sets is None else {**((row or blank) if patches else blank), **change.sets}
        yield change, row


def newest(changes: list[Change], semantics: Semantics) -> dict[Key, dict[str, str | None]]:
    found = {key: list(images(those, semantics.patches)) for key, those in by_key(changes, semantics.order).items()}
    return {key: steps[-1][1] for key, steps in found.items() if steps[-1][1] is not None}


def history(changes: list[Change], semantics: Semantics) -> dict[Key, list[tuple[Any, ...]]]:
    """By key, oldest first: valid_from, valid_to, is_current, and the row."""
    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    for key, those in by_key(changes, semantics.order).items():

        def state(step: tuple[Change, dict[str, str | None] | None]) -> object:
            change, row = step
            if row is None:
                return None
            seen = {**row, "seq": change.seq, "old_id": change.old_id, "op": "u"}
            return [seen[name] for name in (semantics.track or seen)]

        islands = [list(steps) for _, steps in groupby(images(those, semantics.patches), state)]
        starts = [steps[0][0].place(semantics.order)[0] for steps in islands]
        for steps, start, end in zip(islands, starts, [*starts[1:], None], strict=True):
            if steps[-1][1] is not None:
                found[key].append((start, end, end is None, steps[-1][1]))
    return found


@dataclass
class Replica:
    """Merges records into a table, and into its history, as batches and backfill chunks do."""

    spark: SparkSession
    pipeline: Pipeline
    folder: Path
    landed: int = 0
    read_again: int = 0
    stale: int = field(default=0)

    def __post_init__(self) -> None:
        ensure_target(self.spark, LakeUri(self.table), self.pipeline)
        if self.pipeline.target.history_table:
            ensure_history(self.spark, LakeUri(self.history), self.pipeline)

    @property
    def table(self) -> str:
        return str(self.folder / "table")

    @property
    def history(self) -> str:
        return str(self.folder / "history")

    def merge(self, changes: list[Change], again: bool = False) -> None:
        if not changes:
            return
        ends: dict[int, list[int]] = defaultdict(list)
        for change in changes:
            ends[change.partition].append(change.offset)
        ranges = tuple(OffsetRange("t", p, min(at), max(at) + 1) for p, at in sorted(ends.items()))
        generation, number = (-1, self.read_again) if again else (1, self.landed)
        batch = Batch("p", generation, number, ranges, {"t": "id"}, "cluster")
        records = self.spark.createDataFrame([change.row() for change in changes], RECORDS)
        judged = decode(records, self.pipeline, batch).localCheckpoint(eager=True)
        given = prepared(judged, self.pipeline).localCheckpoint(eager=True)
        moved = sum(change.old_id not in (None, change.id) for change in changes)
        counts = SourceCounts(len(changes), 0, 0, len(changes) + moved - (kept := given.count()), kept, moved)
        if self.pipeline.target.history_table:
            all_ = changes_in(folded(judged, self.pipeline, F.lit(True), scd2))
            of_history = CommitMetadata.of(batch, "history", counts, {}, "attempt", "test", of_history=True)
            merge_beside(
                self.spark, LakeUri(self.history), all_, self.pipeline, of_history, replaces=False, prunes=True
            )
        metadata = CommitMetadata.of(batch, "target", counts, {}, "attempt", "test")
        assert merge_changes(self.spark, LakeUri(self.table), given, self.pipeline, metadata, prunes=True)
        log = TableLog.open(LakeUri(self.table))
        assert log is not None
        landed = log.landed(batch)
        assert landed is not None
        self.stale += counts_of(landed, str(batch)).stale  # or it raises
        if again:
            self.read_again += 1
        else:
            self.landed += 1


ALL = Semantics(("seq",), patches=True, moves=True, track=("name",))
CASES = [
    pytest.param(ALL, 30, 2, id="everything"),
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


@pytest.mark.parametrize(("semantics", "cases", "batches"), CASES)
def test_i9_any_stream_in_any_batches_is_what_one_pass_in_order_makes(
    world: World, tmp_path: Path, semantics: Semantics, cases: int, batches: int
) -> None:
    chance = Random(f"{semantics} {cases}")
    streams = [stream(case, chance, semantics) for case in range(cases)]
    steps: list[list[Change]] = [[] for _ in range(batches)]
    for changes in streams:  # cut at random; a partition's records stay in order
        cuts = sorted(chance.randint(0, len(changes)) for _ in range(batches - 1))
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(changes)], strict=True)):
            steps[n] += changes[start:end]
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica, seen, aside = Replica(spark, semantics.pipeline(), tmp_path), list[Change](), list[Change]()
        for step in steps:
            quarantined = {id(change) for change in step if chance.random() < 0.1}
            replica.merge([change for change in step if id(change) not in quarantined])
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
    found = {
        (row["case_id"], row["id"]): {name: row[name] for name in _SHOWN}
        for row in read_table(replica.table)
        if not row["_lakemark"]["deleted"]
    }
    assert found == newest(everything, semantics)
    assert len(found) > cases
    assert replica.stale > 0
    if semantics.track is not None:
        assert history_of(replica.history) == history(everything, semantics)
        assert_one_current_row_per_key_at_every_version(replica.history)


@pytest.mark.slow
@pytest.mark.parametrize("patches", [True, False])
def test_i9_a_column_that_is_declared_later_is_right_once_all_is_read_again(
    world: World, tmp_path: Path, patches: bool
) -> None:
    semantics = Semantics(("seq",), patches=patches, track=())
    chance = Random(f"later {patches}")
    streams = [stream(case, chance, semantics) for case in range(40)]
    before = [change for changes in streams for change in changes[: len(changes) // 2]]
    since = [change for changes in streams for change in changes[len(changes) // 2 :]]
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(note=""), tmp_path)
        replica.merge(before)
        replica = Replica(spark, semantics.pipeline(), tmp_path, replica.landed)
        replica.merge(since)
        first = {change.case for change in before if chance.random() < 0.1}
        # An older change that holds the column may be read again before the newer one that does not, or does.
        for again in (lambda change: change.case in first, lambda change: change.case not in first):
            replica.merge([change for change in before if again(change)], again=True)
        newer = semantics.pipeline(note="")
        replica = Replica(spark, newer, tmp_path, replica.landed, replica.read_again)
        replica.merge(since, again=True)  # by an attempt that does not know the column: it stays as it is
    everything = [*before, *since]
    found = {
        (row["case_id"], row["id"]): {name: row[name] for name in _SHOWN}
        for row in read_table(replica.table)
        if not row["_lakemark"]["deleted"]
    }
    assert found == newest(everything, semantics)


def history_of(path: str) -> dict[Key, list[tuple[Any, ...]]]:
    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    shown = [row for row in read_table(path) if row["valid_from"] is not None]
    for row in sorted(shown, key=lambda row: list(row["_lakemark"]["change_order"].values())):
        image = {name: row[name] for name in _SHOWN}
        found[row["case_id"], row["id"]].append((row["valid_from"], row["valid_to"], row["is_current"], image))
    return found


def assert_one_current_row_per_key_at_every_version(path: str) -> None:
    last = DeltaTable(path).version()
    assert last > 1
    for version in range(1, last + 1):
        several = "select case_id, id from t where is_current group by case_id, id having count(*) > 1"
        assert query(DeltaTable(path, version=version), several) == []
