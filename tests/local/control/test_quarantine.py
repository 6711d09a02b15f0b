"""What the quarantine holds, and the copy of its records that a replay reads: no Spark, no Kafka."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from include.audit.beside import rows_by_batch
from include.control.quarantine import Chosen, Quarantine
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.monitoring.tables import quarantine_by_reason
from include.participants.settled_records import settled_records
from include.protocol.batch import Batch
from include.protocol.ledger_events import BatchPlanned
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from include.protocol.ranges import OffsetRange
from tests.support.batches import batch, committed, landed
from tests.support.hand_made import coordinator_of

_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
        "reason": pa.string(),
        "generation": pa.int32(),
        "batch_id": pa.int64(),
    }
)


def test_records_of_an_old_and_a_new_topic_at_one_position_are_replayed_in_different_chunks(tmp_path: Path) -> None:
    """A chunk has at least as many offsets as records, and each position in it is one record."""
    tables = coordinator_of(tmp_path).tables
    old, new = replace(batch(0), topic_ids={"t": "old"}), replace(batch(0), generation=2, topic_ids={"t": "new"})
    told = {"topic": "t", "partition": 0, "key": None, "reason": "no JSON", "batch_id": 0}
    first, second = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    rows = [
        {**told, "offset": n, "value": b"%d" % n, "generation": of.generation, "timestamp": at}
        for at, of, offsets in ((first, old, (0,)), (second, new, (0, 1, 2)))
        for n in offsets
    ]
    write_deltalake(str(tables.quarantine), pa.Table.from_pylist(rows, _SCHEMA))
    events = list(chain.from_iterable((BatchPlanned(of), committed(of)) for of in (old, new)))
    quarantine = Quarantine("p", tables, events, LedgerState(topic_ids={"t": "new"}))
    chunks, records = quarantine.freeze(Chosen(), LakeUri(str(tmp_path / "frozen")), 2)
    assert records == 4
    assert chunks == ((OffsetRange("t", 0, 0, 2),), (OffsetRange("t", 0, 2, 3),), (OffsetRange("t", 0, 0, 1),))
    frozen = DeltaTable(str(tmp_path / "frozen")).to_pyarrow_table().to_pylist()
    found = sorted((row["chunk"], row["offset"], row["timestamp"]) for row in frozen)
    assert found == [(0, 0, second), (0, 1, second), (1, 2, second), (2, 0, first)]


def test_i8_a_batch_whose_rows_are_gone_from_the_quarantine_proves_no_record_good(tmp_path: Path) -> None:
    """A RESTORE has taken away what the first generation set aside; the second one set it aside again."""
    tables = coordinator_of(tmp_path).tables
    first, second = (replace(batch(0), generation=n, topic_ids={"t": "id"}) for n in (1, 2))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"topic": "t", "partition": 0, "offset": 4, "timestamp": at, "key": None, "value": b"{", "reason": "no JSON"}
    write_deltalake(str(tables.quarantine), pa.Table.from_pylist([{**row, "generation": 2, "batch_id": 0}], _SCHEMA))
    events = list(chain.from_iterable((BatchPlanned(of), committed(of)) for of in (second, first)))
    assert committed(first).counts.quarantined == 1
    quarantine = Quarantine("p", tables, events, LedgerState(topic_ids={"t": "id"}))
    assert [row["offset"] for row in quarantine.set_aside().to_pylist()] == [4]


def test_i8_until_a_repair_the_quarantine_is_what_the_winner_has_set_aside(tmp_path: Path) -> None:
    """An attempt with another suite replaced the batch's records after it had landed. A chunk landed beside it."""
    coordinator, first = coordinator_of(tmp_path), replace(batch(0), topic_ids={"t": "id"})
    chunk = Batch("p", -3, 0, first.ranges, {"t": "id"}, "cluster")
    uri, at = str(coordinator.tables.quarantine), datetime(2026, 1, 1, tzinfo=UTC)
    told = {"topic": "t", "partition": 0, "timestamp": at, "key": None, "value": b"{", "reason": "no JSON"}

    def rows(of: Batch, *offsets: int) -> list[dict[str, object]]:
        return [{**told, "offset": n, "generation": of.generation, "batch_id": 0} for n in offsets]

    def write(of: Batch, number: int, held: list[dict[str, object]], **more: object) -> None:
        text = replace(landed(of).metadata, role="quarantine", **more).dumps()
        properties = CommitProperties({"userMetadata": text}, app_transactions=[Transaction(of.app_id, number)])
        table = pa.Table.from_pylist(held, _SCHEMA)
        write_deltalake(uri, table, mode="overwrite", commit_properties=properties)

    write(first, 0, rows(first, 4))
    named = Position(1, 0, 0, "d", version=0, identity=str(DeltaTable(uri).metadata().id))
    write(first, 1, rows(first, 4, 5, 6), revision=1)
    write(chunk, 0, [*rows(first, 4, 5, 6), *rows(chunk, 8)])
    events = [BatchPlanned(first), replace(committed(first), positions={"quarantine": named})]
    log, state = TableLog.open(LakeUri(uri)), fold(events)
    assert log is not None
    assert rows_by_batch(settled_records(log, "p", state)) == {(1, 0): 1, (-3, 0): 1}
    assert rows_by_batch(settled_records(log, "p", fold([*events, BatchPlanned(batch(1))]))) == {(1, 0): 3, (-3, 0): 1}
    set_aside = Quarantine("p", coordinator.tables, events, state).set_aside().to_pylist()
    assert [row["offset"] for row in set_aside] == [4]
    coordinator.ledger.append(lambda _: events)
    [reason] = quarantine_by_reason(coordinator.settings, coordinator.pipeline, samples=5)
    assert (reason["records"], reason["pending"], [row["offset"] for row in reason["samples"]]) == (2, 1, [4, 8])
