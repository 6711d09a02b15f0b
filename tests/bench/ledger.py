"""`make bench-ledger`: what plan and settle cost, in a young pipeline and after ten thousand batches.

A real broker, real tables, no Spark: a batch "lands" by a commit that has its marker and metadata and no rows. What
came before is written at once: as many ledger events and commits of the target as real batches would have left, and
beside the commits what Spark leaves there, a checksum file for each and a checkpoint for every tenth. Of the ledger's
own commits those of its retention are there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from include.lake.delta_tables import commit_markers, open_table
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch, BatchKey
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ledger_events import AttemptEnded, AttemptStarted
from tests.conftest import stack_in, world_in
from tests.support.long_ledgers import even_batches, write_ledger
from tests.support.world import World

_PARTITIONS = 4
_CHECKPOINT_EVERY = 10  # commits, as Spark does
_LEDGER_COMMITS = 250  # of ten minutes: four of every batch, one batch in ten seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ledger", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 10_000], help="that came before (10 10000)")
    parser.add_argument("--rounds", type=int, default=60, help="measured batches")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakemark-bench-") as home:
        stack = stack_in(Path(home))
        try:
            stack.up(lambda text: print(text, file=sys.stderr), ("kafka",))
            for number in options.batches:
                print(
                    json.dumps(measured(world_in(Path(home, str(number)), stack), number, options.rounds)), flush=True
                )
        finally:
            stack.down()
    return 0


def measured(world: World, before: int, rounds: int) -> dict[str, object]:
    """Milliseconds of plan, settle and both together: medians and 95th percentiles."""
    topic = world.topic(_PARTITIONS)
    pipeline = world.pipeline(topic)
    world.produce(topic, [b"{}"] * (_PARTITIONS * before), _PARTITIONS)
    _write_past(world, pipeline, topic, before)
    coordinator = world.coordinator(pipeline)
    taken: dict[str, list[float]] = {"plan": [], "settle": [], "both": []}
    for _ in range(rounds):
        world.produce(topic, [b"{}"] * _PARTITIONS, _PARTITIONS)
        began = time.monotonic()
        batch = coordinator.plan().batch
        planned = time.monotonic()
        _land(str(coordinator.tables.target), world, pipeline, batch)
        landed = time.monotonic()
        coordinator.settle(BatchKey(batch.generation, batch.batch_id))
        settled = time.monotonic()
        for name, seconds in (("plan", planned - began), ("settle", settled - landed)):
            taken[name].append(1000 * seconds)
        taken["both"].append(taken["plan"][-1] + taken["settle"][-1])
    figures = {
        name: {"median": round(statistics.median(ms), 1), "p95": round(statistics.quantiles(ms, n=20)[-1], 1)}
        for name, ms in taken.items()
    }
    return {"batches_before": before, "rounds": rounds, "milliseconds": figures}


def _write_past(world: World, pipeline: Pipeline, topic: str, number: int) -> None:
    tables, source = world.coordinator(pipeline).tables, world.coordinator(pipeline).source()
    ids = source.topic_ids[topic], source.cluster_id
    batches = even_batches(pipeline.name, topic, number, _PARTITIONS, 1, ids)
    DeltaTable.create(str(tables.target), pa.schema([("id", pa.int64())]))
    table = DeltaTable(str(tables.target))
    log = Path(str(tables.target), "_delta_log")
    for batch in batches:
        provenance = {"timestamp": time.time_ns() // 1_000_000, "operation": "MERGE", "operationParameters": {}}
        provenance |= {"userMetadata": _metadata(batch), "operationMetrics": {"numSourceRows": "1"}}
        actions = [{"commitInfo": provenance}, {"txn": {"appId": batch.app_id, "version": batch.batch_id}}]
        text = "".join(json.dumps(action) + "\n" for action in actions)
        version = f"{batch.batch_id + 1:020}"
        (log / f"{version}.json").write_text(text)
        (log / f"{version}.crc").write_text("{}")
        if batch.batch_id % _CHECKPOINT_EVERY == 0:
            (log / f"{version}.checkpoint.parquet").touch()  # nobody reads another than the newest
    DeltaTable(str(tables.target)).create_checkpoint()
    write_ledger(Path(str(tables.ledger)), batches, str(table.metadata().id))
    for version in range(1, min(_LEDGER_COMMITS, 4 * number)):
        commit = {"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": "WRITE"}}
        Path(str(tables.ledger), "_delta_log", f"{version:020}.json").write_text(json.dumps(commit) + "\n")
    DeltaTable(str(tables.ledger)).create_checkpoint()


def _land(target: str, world: World, pipeline: Pipeline, batch: Batch) -> None:
    ledger = world.coordinator(pipeline).ledger
    ledger.append(lambda state: [AttemptStarted(*batch.key, "a", "host", "bench")], about=batch.key)
    table = open_table(LakeUri(target))
    assert table is not None
    assert commit_markers(table, {batch.app_id: batch.batch_id}, _metadata(batch))
    if batch.batch_id % _CHECKPOINT_EVERY == 0:
        DeltaTable(target).create_checkpoint()
    ledger.append(lambda state: [AttemptEnded(*batch.key, "a", "applied", {"merge": 1.0})], about=batch.key)
    ledger.keep_few_files()


def _metadata(batch: Batch) -> str:
    counts = SourceCounts(batch.width, 0, 0, batch.width, 0)
    ends = {r.topic_partition: r.end_offset for r in batch.ranges}
    return CommitMetadata.of(batch, "target", counts, ends, "a", "bench").dumps()


if __name__ == "__main__":
    sys.exit(main())
