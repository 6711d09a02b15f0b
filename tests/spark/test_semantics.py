"""Random change streams, cut into batches at random, with ranges read again in between: the table is the oracle's.

Hundreds of streams at once: each is a case of its own, with keys and partitions of its own, and all share the batches.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from spark_jobs.decode import decode
from spark_jobs.reduce import latest_changes
from spark_jobs.session import fit
from spark_jobs.tables import ensure_target, merge_changes
from tests.support.world import World, read_table

_RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """One record of a case: what Kafka has, and what the oracle knows of it."""

    case: int
    id: int
    seq: int
    name: str | None  # None: a delete
    partition: int
    offset: int
    at: datetime
    is_tombstone: bool

    def row(self) -> tuple[bytes, bytes | None, str, int, int, datetime]:
        key = {"case_id": self.case, "id": self.id}
        value = {**key, "seq": self.seq, "name": self.name, "op": "d" if self.name is None else "u"}
        raw = None if self.is_tombstone else json.dumps(value).encode()
        return json.dumps(key).encode(), raw, "t", self.partition, self.offset, self.at


def stream(case: int, chance: Random, tombstones: bool) -> list[Change]:
    """Few keys, few order values: ties, disorder and deletes meet often."""
    found: list[Change] = []
    offsets: dict[int, int] = defaultdict(int)
    for n in range(chance.randint(4, 30)):
        id_ = chance.randint(1, 4)
        partition = 2 * case + id_ % 2
        deleted = chance.random() < 0.25
        at = _BEGAN + timedelta(milliseconds=chance.randint(0, 5))
        name, seq = None if deleted else f"n{n}", chance.randint(0, 6)
        found.append(Change(case, id_, seq, name, partition, offsets[partition], at, tombstones and deleted))
        offsets[partition] += chance.randint(1, 2)  # Kafka leaves gaps
    return found


def oracle(changes: list[Change], order: list[str]) -> dict[tuple[int, int], str]:
    """The newest change of every key wins; a delete leaves nothing. Knows nothing of the product."""

    def place(change: Change) -> tuple[Any, ...]:
        given = {"seq": change.seq, "kafka.timestamp": change.at}
        return (*(given[name] for name in order), change.partition, change.offset)

    best: dict[tuple[int, int], Change] = {}
    for change in changes:
        key = change.case, change.id
        if key not in best or place(change) > place(best[key]):
            best[key] = change
    return {key: change.name for key, change in best.items() if change.name is not None}


@dataclass
class Replica:
    """Merges records into a table as batches and backfill chunks do."""

    spark: SparkSession
    pipeline: Pipeline
    path: str
    landed: int = 0
    read_again: int = 0

    def merge(self, changes: list[Change], again: bool = False) -> None:
        if not changes:
            return
        ends: dict[int, list[int]] = defaultdict(list)
        for change in changes:
            ends[change.partition].append(change.offset)
        ranges = tuple(OffsetRange("t", p, min(at), max(at) + 1) for p, at in sorted(ends.items()))
        generation, number = (-1, self.read_again) if again else (1, self.landed)
        batch = Batch("p", generation, number, ranges, {"t": "id"}, "cluster")
        records = self.spark.createDataFrame([change.row() for change in changes], _RECORDS)
        judged = decode(records, self.pipeline, batch).localCheckpoint(eager=True)
        newest = latest_changes(judged, self.pipeline).localCheckpoint(eager=True)
        counts = SourceCounts(len(changes), 0, 0, len(changes) - (kept := newest.count()), kept)
        metadata = CommitMetadata.of(batch, "target", counts, {}, "attempt", "test")
        assert merge_changes(self.spark, self.path, newest, self.pipeline, metadata)
        if again:
            self.read_again += 1
        else:
            self.landed += 1


ORDERS = [
    pytest.param(["seq"], 60, 2, id="a column"),
    pytest.param(["seq"], 500, 8, id="a column, many", marks=pytest.mark.slow),
    pytest.param([], 500, 8, id="Kafka's order", marks=pytest.mark.slow),
    pytest.param(["kafka.timestamp"], 500, 8, id="Kafka's time, tombstones", marks=pytest.mark.slow),
    pytest.param(["kafka.timestamp", "seq"], 500, 8, id="time and column", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("order", "cases", "batches"), ORDERS)
def test_i9_any_stream_in_any_batches_is_the_newest_change_of_every_key(
    world: World, tmp_path: Path, order: list[str], cases: int, batches: int
) -> None:
    chance = Random(f"{order} {cases}")
    by_tombstone = order == ["kafka.timestamp"]
    pipeline = Pipeline.model_validate(
        {
            "name": "p",
            "source": {
                "bootstrap_servers": "k",
                "topics": ["t"],
                "schema": "case_id INT, id INT, seq INT, name STRING, op STRING",
                "key": "json",
            },
            "change": {
                "keys": ["case_id", "id"],
                "order_by": order,
                "delete_when": "op = 'd'",
                "tombstones": "delete" if by_tombstone else None,
            },
            "target": {"table": "lake://silver/p"},
        }
    )
    streams = [stream(case, chance, by_tombstone) for case in range(cases)]
    steps: list[list[Change]] = [[] for _ in range(batches)]
    for changes in streams:  # cut at random; a partition's records stay in order
        cuts = sorted(chance.randint(0, len(changes)) for _ in range(batches - 1))
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(changes)], strict=True)):
            steps[n] += changes[start:end]
    path = str(tmp_path / "table")
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        ensure_target(spark, path, pipeline)
        replica, seen = Replica(spark, pipeline, path), list[Change]()
        for step in steps:
            replica.merge(step)
            seen += step
            if chance.random() < 0.5:  # a backfill of some of what was read
                again = {change.case for change in seen if chance.random() < 0.2}
                replica.merge([change for change in seen if change.case in again and chance.random() < 0.7], again=True)
    found = {(row["case_id"], row["id"]): row["name"] for row in read_table(path) if not row["_lakemark"]["deleted"]}
    assert found == oracle([change for changes in streams for change in changes], order)
    assert len(found) > cases
