"""Ledgers of many batches, written at once: for what has to stay quick after years."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from include.lake.ledger import CONFIGURATION, LEDGER_SCHEMA, SNAPSHOT_EVERY
from include.lake.ledger_reads import APP_ID, SNAPSHOT_ID
from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BatchCommitted,
    BatchPlanned,
    Event,
    LedgerSnapshot,
    TopicsStarted,
)
from include.protocol.ledger_rows import to_row
from include.protocol.ranges import OffsetRange

RECORDS = 1000  # of a batch, in each of its partitions
MINUTES = 5  # from batch to batch


def even_batches(
    pipeline: str,
    topic: str,
    number: int,
    partitions: int = 2,
    records: int = RECORDS,
    ids: tuple[str, str] = ("t", "c"),
) -> list[Batch]:
    """Batches of the same size.

    Args:
        records: of a batch in each partition. ids: of the topic, and of Kafka's cluster.
    """
    topic_id, cluster_id = ids
    return [
        Batch(
            pipeline,
            1,
            n,
            tuple(OffsetRange(topic, p, n * records, (n + 1) * records) for p in range(partitions)),
            {topic: topic_id},
            cluster_id,
        )
        for n in range(number)
    ]


def write_ledger(path: Path, batches: Sequence[Batch], table_id: str = "t") -> None:
    """A ledger of these batches, in which everything went well; the last one was committed a moment ago."""
    began = datetime.now(UTC) - timedelta(minutes=MINUTES * len(batches))
    first = batches[0]
    starts = {r.topic_partition: 0 for r in first.ranges}
    rows = [(began, TopicsStarted(1, 0, starts, first.topic_ids, first.cluster_id))]
    snapshot_at = None
    for batch in batches:
        at = began + timedelta(minutes=MINUTES * batch.batch_id)
        life = _life(batch, table_id)
        rows += [(at + timedelta(seconds=n), event) for n, event in enumerate(life)]
        if batch.batch_id % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
            snapshot_at = len(rows)
            ends = {r.topic_partition: r.end_offset for r in batch.ranges}
            kept = LedgerSnapshot(batch, life[-1], ends, batch.topic_ids, batch.cluster_id)
            rows.append((at + timedelta(seconds=5), kept))
    table = pa.Table.from_pylist(
        [
            {"sequence": n, "recorded_at": at, **(row := to_row(event)), "details": json.dumps(row["details"])}
            for n, (at, event) in enumerate(rows)
        ],
        LEDGER_SCHEMA,
    )
    markers = [Transaction(APP_ID, len(rows) - 1), *([Transaction(SNAPSHOT_ID, snapshot_at)] if snapshot_at else [])]
    write_deltalake(
        str(path),
        table,
        configuration=CONFIGURATION,
        commit_properties=CommitProperties(app_transactions=markers),
    )


def _life(batch: Batch, table_id: str) -> list[Event]:
    attempt = f"{batch.batch_id:032x}"
    read = sum(r.width for r in batch.ranges)
    committed = BatchCommitted(
        generation=1,
        batch_id=batch.batch_id,
        fingerprint=batch.fingerprint,
        table_version=batch.batch_id,
        committed_at=datetime.now(UTC).isoformat(),
        attempt_id=attempt,
        counts=BatchCounts(read, read - 13, 5, 3, 4, 1),
        quarantine_version=batch.batch_id,
        settle_seconds=0.05,
        table_id=table_id,
    )
    seconds = {"session": 0.4, "read": 1.2, "decode": 0.7, "merge": 4.1}
    return [
        BatchPlanned(batch),
        AttemptStarted(1, batch.batch_id, attempt, "host", "airflow"),
        AttemptEnded(1, batch.batch_id, attempt, "applied", seconds),
        committed,
    ]
