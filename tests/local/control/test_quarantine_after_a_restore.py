"""Whether a quarantined record waits is said by batches whose rows are there, and by no others. No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.control.quarantine_states import QuarantineStates
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, committed
from tests.support.tables_before import with_tables

BAD = batch(0, ("t", 0, 0, 10))
GOOD_AGAIN = batch(0, ("t", 0, 0, 10), generation=2)  # it reads the record again, and takes it


def landed(of, version: int, quarantined: int) -> BatchCommitted:
    found = committed(of)
    assert found.counts is not None
    return replace(found, table_version=version, counts=replace(found.counts, quarantined=quarantined))


def began(generation: int, origin: str, **told: object) -> GenerationStarted:
    return GenerationStarted(
        generation,
        {TopicPartition("t", 0): 0},
        {"t": "id-t"},
        "cluster",
        origin,
        "why",
        "me",
        **told,  # type: ignore[arg-type]
    )


UNTIL_THEN: list[Event] = [
    BatchPlanned(BAD),
    landed(BAD, 1, 1),
    began(2, "earliest", target_version=2),
    BatchPlanned(GOOD_AGAIN),
    landed(GOOD_AGAIN, 3, 0),
]


def states(folder: Path, events: list[Event], generation: int, batch_id: int) -> list[str]:
    """The state of one record. Args: generation, batch_id: of the batch that has set it aside."""
    coordinator = with_tables(folder)
    row = {"topic": "t", "partition": 0, "offset": 5, "timestamp": None, "key": None, "value": b"{", "reason": "bad"}
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"), pa.binary(), pa.binary(), pa.string()]
    columns = [*zip(row, kinds, strict=True), ("generation", pa.int32()), ("batch_id", pa.int64())]
    rows = pa.Table.from_pylist([{**row, "generation": generation, "batch_id": batch_id}], pa.schema(columns))
    place = str(coordinator.tables.quarantine)
    Path(place).mkdir(parents=True)
    write_deltalake(place, rows)
    found = QuarantineStates("p", coordinator.tables, events, fold(events)).database
    return [state for (state,) in found.execute("SELECT state FROM records").fetchall()]


def test_a_later_batch_that_takes_the_record_ends_its_waiting(tmp_path: Path) -> None:
    assert states(tmp_path, UNTIL_THEN, 1, 0) == ["applied"]


def test_once_a_restore_has_undone_that_batch_it_waits_again(tmp_path: Path) -> None:
    back = began(3, "checkpoint 1/0", target_version=4, restored_to=1)
    assert states(tmp_path, [*UNTIL_THEN, back], 1, 0) == ["pending"]


@pytest.mark.parametrize("generation", [1, 2, 7])
def test_after_a_cut_over_what_was_before_says_nothing(tmp_path: Path, generation: int) -> None:
    """The other pipeline's batch may have any number, also one that a batch of this pipeline has had."""
    cut = began(8, "cut over to q q-2026 1/0", target_version=4)
    assert states(tmp_path, [*UNTIL_THEN, cut], generation, 0) == ["pending"]
