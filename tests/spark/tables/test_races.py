"""Both engines write the same table at the same moment: the same batch, a batch and a chunk, a batch and OPTIMIZE. Who
loses reads again and decides again, as an attempt does. Every change lands once, and no key has two rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.lake.merge.compaction import Compaction
from include.lake.merge.landing import MarkerIsThereError, OvertakenError
from include.lake.merge.landing import land as land_by_lane
from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.engine.failures import is_conflict, is_same_marker
from spark_jobs.engine.rows import collected
from spark_jobs.engine.session import fit
from spark_jobs.tables.creating import ensure
from spark_jobs.tables.lane import lane_write
from spark_jobs.tables.merging import landing, prepared
from tests.support.readers import all_readers
from tests.support.records import RECORDS
from tests.support.world import World

KEYS, CHANGES = 60, 40  # of the table; of a batch
_TRIES_MAX = 100
PIPELINE = Pipeline.model_validate(
    {
        "name": "p",
        "source": {
            "bootstrap_servers": "k",
            "topics": ["t"],
            "schema": "id INT, seq INT, name STRING, op STRING",
        },
        "change": {"keys": ["id"], "order_by": ["seq"], "delete_when": "op = 'd'"},
        "target": {"table": "lake://silver/p", "cluster_by": ["id"]},
    }
)
SPEC = TableSpec.of_target(PIPELINE)
RACES = {
    "one batch": ("batch by Spark", "batch by the lane"),
    "one batch, two lanes": ("batch by Spark", "batch by the lane", "batch by the lane"),
    "a chunk by Spark": ("chunk by Spark", "batch by the lane"),
    "a chunk by the lane": ("batch by Spark", "chunk by the lane"),
    "two lanes": ("batch by the lane", "chunk by the lane"),
    "OPTIMIZE": ("OPTIMIZE", "batch by the lane", "chunk by the lane"),
    "compaction": ("batch by Spark", "compaction by the lane"),
}


@dataclass(frozen=True)
class Change:
    id: int
    seq: int
    offset: int
    name: str | None  # None: a delete

    def row(self) -> tuple[None, bytes, str, int, int, None]:
        value = {"id": self.id, "seq": self.seq, "name": self.name, "op": "u" if self.name else "d"}
        return None, json.dumps(value).encode(), "t", 0, self.offset, None


@dataclass
class Course:
    """The table, all that it was sent, and how the races ended."""

    spark: SparkSession
    table: str
    chance: Random
    sent: list[Change] = field(default_factory=list)
    batches: int = 0
    chunks: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 1.0  # that Spark took the last time

    def batch(self) -> Callable[[str], Callable[[], None]]:
        """New changes; returns the writes of them."""
        first, ids = len(self.sent), self.chance.sample(range(KEYS), CHANGES)
        seqs = [self.chance.randint(0, 9) for _ in ids]
        names = [f"n{first + n}" if self.chance.random() < 0.8 else None for n in range(CHANGES)]
        made = [Change(*of, name) for *of, name in zip(ids, seqs, range(first, first + CHANGES), names, strict=True)]
        self.sent += made
        self.batches += 1
        return self._writes(1, self.batches - 1, made)

    def chunk(self) -> Callable[[str], Callable[[], None]]:
        """Changes from before, once more; returns the writes of them."""
        self.chunks += 1
        return self._writes(-1, self.chunks - 1, self.chance.sample(self.sent, min(CHANGES, len(self.sent))))

    def _writes(self, generation: int, number: int, changes: list[Change]) -> Callable[[str], Callable[[], None]]:
        offsets = [change.offset for change in changes]
        ranges = (OffsetRange("t", 0, min(offsets), max(offsets) + 1),)
        batch = Batch("p", generation, number, ranges, {"t": "id"}, "cluster")
        judged = decode(self.spark.createDataFrame([change.row() for change in changes], RECORDS), PIPELINE)
        rows = prepared(dispositions(judged, PIPELINE), SPEC, batch).localCheckpoint(eager=True)
        arrow = collected(rows)
        counts = SourceCounts(len(changes), 0, 0, len(changes) - len(arrow), len(arrow))
        metadata = CommitMetadata.of(batch, "target", counts, {}, "attempt", "test")
        kept = KeptRows(lambda: rows, arrow)
        return lambda engine: partial(self._commit, engine, metadata, kept)

    def _commit(self, engine: str, metadata: CommitMetadata, rows: KeptRows) -> None:
        batch, uri = metadata.batch, LakeUri(self.table)
        log = TableLog.open(uri)
        assert log is not None
        if log.landed(batch) is not None:
            raise MarkerIsThereError(str(batch))
        if engine == "Spark":
            write = landing(self.spark, uri, rows.hinted, SPEC, batch=batch, prunes=True)
            write.commit(metadata, batch.batch_id)
        else:
            lane_write(self.spark, Snapshot.of(uri), rows, SPEC, batch=batch).commit(metadata, batch.batch_id)

    def compacted(self) -> None:
        land_by_lane(Snapshot.of(LakeUri(self.table)), Compaction(), None, None)

    def optimized(self) -> None:
        self.spark.sql(f"OPTIMIZE delta.`{self.table}`").collect()

    def shown(self, rows: list[dict]) -> dict[int, tuple[int, str]]:
        live = [row for row in rows if not row["_lakemark"]["deleted"]]
        found = {row["id"]: (row["seq"], row["name"]) for row in live}
        assert len(found) == len(live), "no key has two rows"
        return found

    def expected(self) -> dict[int, tuple[int, str]]:
        newest: dict[int, Change] = {}
        for change in self.sent:
            other = newest.get(change.id)
            if other is None or (change.seq, change.offset) > (other.seq, other.offset):
                newest[change.id] = change
        return {change.id: (change.seq, change.name) for change in newest.values() if change.name}


def ended(run: Callable[[], None], wait: float) -> str:
    """How it got through: at the first try, after so many conflicts, or another one had landed it."""
    Event().wait(wait)
    for tries in range(_TRIES_MAX):
        try:
            run()
        except MarkerIsThereError:
            return "was there"
        except OvertakenError:
            continue
        except Exception as error:
            if not (is_conflict(error) or is_same_marker(error)):
                raise
        else:
            return f"after {tries}" if tries else "at once"
    raise AssertionError(f"it did not get through in {_TRIES_MAX} tries")


def race(course: Course, kind: str, pool: ThreadPoolExecutor) -> None:
    """Spark's side, or the first lane, runs in this thread; the others begin at some moment while it runs."""
    batch = course.batch()
    chunk = course.chunk() if any(who.startswith("chunk") for who in RACES[kind]) else batch
    runs = [
        {
            "OPTIMIZE": lambda: course.optimized,
            "batch by Spark": lambda: batch("Spark"),
            "chunk by Spark": lambda: chunk("Spark"),
            "batch by the lane": lambda: batch("lane"),
            "chunk by the lane": lambda: chunk("lane"),
            "compaction by the lane": lambda: course.compacted,
        }[who]()
        for who in RACES[kind]
    ]
    by_spark = "Spark" in RACES[kind][0] or kind == "OPTIMIZE"
    most = course.seconds if by_spark else 0.05
    others = [pool.submit(ended, run, course.chance.uniform(0, most)) for run in runs[1:]]
    began = monotonic()
    ends = [ended(runs[0], 0), *(other.result(timeout=120) for other in others)]
    if by_spark and ends[0] == "at once":
        course.seconds = monotonic() - began
    for who, end in zip(RACES[kind], ends, strict=True):
        course.ends[f"{who}: {'after conflicts' if end.startswith('after') else end}"] += 1


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_i5_whoever_wins_every_change_lands_once(world: World, tmp_path: Path, rounds: int) -> None:
    with world.session() as spark, ThreadPoolExecutor(max_workers=4) as pool:
        fit(spark, records=0, rows=0)
        course = Course(spark, str(tmp_path / "table"), Random(rounds))
        ensure(spark, LakeUri(course.table), SPEC)
        for n in range(rounds):
            for kind in sorted(RACES, key=lambda _: course.chance.random()):
                race(course, kind, pool)
                readers = all_readers(spark) if n == rounds - 1 else {"deltalake": all_readers(spark)["deltalake"]}
                for reader, read in readers.items():
                    assert course.shown(read(course.table)) == course.expected(), (kind, reader, course.ends)
        markers = [
            (json.loads(told["userMetadata"])["generation"], json.loads(told["userMetadata"])["batch_id"])
            for told in DeltaTable(course.table).history()
            if "userMetadata" in told
        ]
    print(dict(sorted(course.ends.items())))
    assert len(markers) == len({*markers}), "no marker twice"
    assert {(1, n) for n in range(course.batches)} <= {*markers}
