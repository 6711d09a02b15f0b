"""A pipeline of six batches, whose target is made of real Delta files: no Spark, no Kafka."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from include.control.coordinator import Coordinator
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.stores import files_at
from include.protocol.ledger_events import BatchPlanned, Event
from tests.support.batches import batch, committed, landed, source
from tests.support.readers import by_deltalake
from tests.support.tables_before import begun_with, with_tables

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("_lakemark", pa.struct([("deleted", pa.bool_())]))])
BATCHES = 6
IN_KAFKA = source({("t", 0): (0, 10 * BATCHES)})


def made(folder: Path, age: timedelta = timedelta()) -> Coordinator:
    """A pipeline whose batch n has made version n + 1 of the target, all of an age, a second after each other."""
    found, began = with_tables(folder), datetime.now(UTC) - age
    target, told = found.tables.target, {"delta.enableDeletionVectors": "true"}
    files_at(target).make_folder(target)
    DeltaTable.create(str(target), SCHEMA, configuration=told)
    events: list[Event] = [begun_with(batch(0))]
    for number in range(BATCHES):
        of, at = batch(number), (began + timedelta(seconds=number)).isoformat()
        ids = range(number % 3, 40, 1 + number % 3)
        rows = pa.Table.from_pylist([{"id": n, "seq": number, "_lakemark": {"deleted": n == 39}} for n in ids], SCHEMA)
        said = replace(landed(of).metadata, positions={}).dumps()
        version = land(
            Snapshot.of(target), Upsert(rows, ("id",), ((("seq",),),), ("seq",)), Marker(of.app_id, number), said
        )
        log = DeltaTable(str(target))
        told_of = {"table_version": version, "table_id": str(log.metadata().id), "committed_at": at, "positions": {}}
        events += [BatchPlanned(of), replace(committed(of), **told_of)]
    found.ledger.append(lambda state: events)
    return found


def rows(coordinator: Coordinator) -> list[tuple[int, ...]]:
    return sorted((row["id"], row["seq"]) for row in by_deltalake(str(coordinator.tables.target)))


def cut_the_log(coordinator: Coordinator) -> None:
    """As log clean-up does it."""
    DeltaTable(str(coordinator.tables.target)).create_checkpoint()
    for version in range(BATCHES):
        (Path(str(coordinator.tables.target)) / f"_delta_log/{version:020}.json").unlink()
