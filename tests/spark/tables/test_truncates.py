"""Truncates that are applied (I9): random streams in random batches, against an oracle; and one as a user sees it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from include.audit.auditor import audit
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
from tests.support.commits import land, land_over
from tests.support.older_form import create_in_older_form, rewrite_in_older_form
from tests.support.records import RECORDS
from tests.support.world import World, read_table

_UNAVAILABLE = "__debezium_unavailable_value"
_SOURCE = {"format": "debezium-json", "schema": "id INT, name STRING, note STRING", "key": "json"}
_CHANGE = {"keys": ["id"], "order_by": ["source.lsn"], "truncates": "apply"}


def a_record(op: str, lsn: int, id_: int | None = None, name: str = "", note: str | None = None) -> dict[str, Any]:
    after = {"id": id_, "name": name, "note": note} if op in "cu" else None
    return {"op": op, "before": None, "after": after, "source": {"lsn": lsn}, "_id": id_}


def stream(chance: Random) -> list[dict[str, Any]]:
    found = []
    for n in range(60):
        op = chance.choices(["u", "d", "t"], [8, 2, 1])[0]
        note = chance.choice([_UNAVAILABLE, None, f"note {n}"])
        found.append(a_record(op, chance.randint(0, 25), None if op == "t" else chance.randint(1, 8), f"n{n}", note))
    return found


def oracle(records: list[dict[str, Any]]) -> dict[int, tuple[str, str | None]]:
    rows: dict[int, tuple[str, str | None]] = {}
    for _, record in sorted(enumerate(records), key=lambda pair: (pair[1]["source"]["lsn"], pair[0])):
        match record["op"]:
            case "t":
                rows.clear()
            case "d":
                rows.pop(record["_id"], None)
            case _:
                note, before = record["after"]["note"], rows.get(record["_id"])
                kept = before[1] if before else None
                rows[record["_id"]] = (record["after"]["name"], kept if note == _UNAVAILABLE else note)
    return rows


def shown(rows: Iterable[dict[str, Any]]) -> dict[int, tuple[str, str | None]]:
    return {row["id"]: (row["name"], row["note"]) for row in rows if not row["_lakemark"]["deleted"]}


@pytest.mark.parametrize("is_older", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "a table of before"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))])
def test_i9_a_truncate_deletes_what_was_before_it_in_any_batches(
    world: World, tmp_path: Path, seed: int, is_older: bool
) -> None:
    chance = Random(seed)
    records = stream(chance)
    pipeline = Pipeline.model_validate(
        {
            "name": "p",
            "source": {"bootstrap_servers": "k", "topics": ["t"], **_SOURCE},
            "change": _CHANGE,
            "target": {"table": "lake://silver/p"},
        }
    )
    order = list(enumerate(records))
    cuts = [0, *sorted(chance.sample(range(1, 60), 3)), 60]
    batches = [(1, order[start:end]) for start, end in pairwise(cuts)]
    batches.insert(chance.randint(1, 4), (-1, chance.sample(order[: cuts[1]], min(8, cuts[1]))))  # read again
    replaced = chance.choice([n for n, (generation, _) in enumerate(batches) if generation > 0])
    path = str(tmp_path / "t")
    with world.session() as spark:
        fit(spark, 0, 0)
        spec = TableSpec.of_target(pipeline)
        if is_older:
            create_in_older_form(spark, LakeUri(path), spec)
        ensure(spark, LakeUri(path), spec)
        number = {1: 0, -1: 0}
        for n, (generation, batch_records) in enumerate(batches):
            batch = Batch("p", generation, number[generation], (OffsetRange("t", 0, 0, 60),), {"t": "i"}, "c")
            number[generation] += 1
            changes = changes_of(batch_records, spark, pipeline, batch)
            counts = SourceCounts(len(batch_records), 0, 0, len(batch_records) - (given := changes.count()), given)
            truncated = any(r["op"] == "t" for _, r in batch_records)
            metadata = CommitMetadata.of(batch, "target", counts, {}, "a", "v", truncated=truncated)
            if n == replaced:
                some = chance.sample(batch_records, len(batch_records) // 2)
                stray = changes_of(some, spark, pipeline, batch)
                land_over(stray, spark, LakeUri(path), changes, spec, metadata)
                continue
            land(spark, LakeUri(path), changes, spec, metadata, by_lane=not truncated and chance.random() < 0.7)
            log = TableLog.open(LakeUri(path))
            assert log is not None
            landed = log.landed(batch)
            assert landed is not None
            counts_of(landed, str(batch))  # adds up, or raises
            if is_older and n == 0:
                rewrite_in_older_form(spark, LakeUri(path), spec)
    assert any(record["op"] == "t" for record in records)
    assert shown(read_table(path)) == oracle(records)


def changes_of(
    records: list[tuple[int, dict[str, Any]]], spark: SparkSession, pipeline: Pipeline, batch: Batch
) -> DataFrame:
    """What a batch's MERGE gets. Args: records: with their offsets."""
    rows = [
        (json.dumps({"id": r["_id"]}).encode(), json.dumps(r).encode(), "t", 0, offset, None) for offset, r in records
    ]
    judged = decode(spark.createDataFrame(rows, RECORDS), pipeline).localCheckpoint(eager=True)
    return prepared(dispositions(judged, pipeline), TableSpec.of_target(pipeline), batch).localCheckpoint(eager=True)


@pytest.mark.slow  # an example does the same in every run
def test_a_truncate_as_a_user_sees_it(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source=_SOURCE, change=_CHANGE)
    ids = [{"id": n} for n in range(1, 4)]
    first = [a_record("c", n, n, f"n{n}", "x") for n in (1, 2, 3)]
    world.produce(topic, first, 1, keys=ids)
    world.run_batch(pipeline)
    second = [a_record("t", 10), a_record("c", 11, 2, "new", _UNAVAILABLE), a_record("u", 5, 3, "late", "x")]
    world.produce(topic, second, 1, keys=[None, {"id": 2}, {"id": 3}])
    world.run_batch(pipeline)
    assert shown(world.rows(pipeline)) == {2: ("new", None)}
    counts = world.counts(pipeline)
    assert (counts.read, counts.applied, counts.stale) == (3, 3, 0)
    world.produce(topic, [a_record("u", 9, 1, "later still", "x")], 1, keys=[{"id": 1}])
    world.run_batch(pipeline)
    assert shown(world.rows(pipeline)) == {2: ("new", None)}
    assert audit(world.settings, pipeline, deep=True).findings == ()
