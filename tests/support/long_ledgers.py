"""Ledgers of many batches, written at once: for what has to stay quick after years."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from include.ledger import APP_ID, KEEP_EVERY, KEPT_ID, SCHEMA
from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BatchCommitted,
    BatchPlanned,
    Event,
    StateKept,
    TopicsStarted,
)
from include.protocol.ledger_rows import to_row
from include.protocol.ranges import OffsetRange, TopicPartition

RECORDS = 1000  # of a batch, in each of its partitions
MINUTES = 5  # from batch to batch


def write_ledger(path: Path, pipeline: str, topic: str, batches: int, partitions: int = 2) -> None:
    """A ledger in which everything went well; the last batch was committed a moment ago."""
    began = datetime.now(UTC) - timedelta(minutes=MINUTES * batches)
    starts = {TopicPartition(topic, n): 0 for n in range(partitions)}
    rows = [(began, TopicsStarted(1, 0, starts, {topic: "t"}, "c"))]
    kept_at = None
    for batch_id in range(batches):
        at = began + timedelta(minutes=MINUTES * batch_id)
        life = _life(pipeline, topic, batch_id, partitions)
        rows += [(at + timedelta(seconds=n), event) for n, event in enumerate(life)]
        if batch_id % KEEP_EVERY == KEEP_EVERY - 1:
            kept_at = len(rows)
            rows.append((at + timedelta(seconds=5), _kept(life, topic, partitions)))
    table = pa.Table.from_pylist(
        [
            {"sequence": n, "recorded_at": at, **(row := to_row(event)), "details": json.dumps(row["details"])}
            for n, (at, event) in enumerate(rows)
        ],
        SCHEMA,
    )
    markers = [Transaction(APP_ID, len(rows) - 1), *([Transaction(KEPT_ID, kept_at)] if kept_at else [])]
    write_deltalake(
        str(path),
        table,
        configuration={"delta.appendOnly": "true"},
        commit_properties=CommitProperties(app_transactions=markers),
    )


def _kept(life: list[Event], topic: str, partitions: int) -> StateKept:
    batch, commit = life[0].batch, life[-1]
    ends = {TopicPartition(topic, n): (batch.batch_id + 1) * RECORDS for n in range(partitions)}
    return StateKept(batch, commit, ends, {topic: "t"}, "c")


def _life(pipeline: str, topic: str, batch_id: int, partitions: int) -> list[Event]:
    ranges = tuple(OffsetRange(topic, n, batch_id * RECORDS, (batch_id + 1) * RECORDS) for n in range(partitions))
    batch = Batch(pipeline, 1, batch_id, ranges, {topic: "t"}, "c")
    attempt = f"{batch_id:032x}"
    read = RECORDS * partitions
    committed = BatchCommitted(
        generation=1,
        batch_id=batch_id,
        fingerprint=batch.fingerprint,
        table_version=batch_id,
        committed_at=datetime.now(UTC).isoformat(),
        attempt_id=attempt,
        counts=BatchCounts(read, read - 13, 5, 3, 4, 1),
        quarantine_version=batch_id,
        settle_seconds=0.05,
        table_id="t",
    )
    seconds = {"session": 0.4, "read": 1.2, "decode": 0.7, "merge": 4.1}
    return [
        BatchPlanned(batch),
        AttemptStarted(1, batch_id, attempt, "host", "airflow"),
        AttemptEnded(1, batch_id, attempt, "applied", seconds),
        committed,
    ]
