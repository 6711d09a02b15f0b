"""What an archive holds of a pipeline's batches: no Spark, no Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.lake.table_log import TableLog
from include.protocol.backfill_planning import everything
from include.protocol.errors import OffsetsExpired, TerminalError
from include.protocol.ledger_events import GenerationStarted
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.sources.archive import ArchiveSource, records_in
from tests.support.batches import batch
from tests.support.tables_before import begun_with, events_of, folder_before, with_tables

T0 = TopicPartition("t", 0)


def with_archive(folder: Path, batches: Iterable[int], batch_ids: Iterable[int]) -> Coordinator:
    """A pipeline of which three batches of ten records have landed, and an archive that a landing of the same
    generation has written.

    Args:
        batches: whose records it holds. batch_ids: as the landing counted them.
    """
    coordinator = with_tables(folder)
    coordinator.ledger.append(lambda state: [begun_with(batch(0)), *events_of(*map(batch, range(3)))])
    rows = [
        {"topic": "t", "topic_id": "id-t", "partition": 0, "offset": 10 * n + o, "generation": 1, "batch_id": batch_id}
        for n, batch_id in zip(batches, batch_ids, strict=True)
        for o in range(10)
    ]
    write_deltalake(folder_before(coordinator, "archive"), pa.Table.from_pylist(rows))
    return coordinator


def verify(coordinator: Coordinator) -> None:
    ArchiveSource.of(coordinator.settings, coordinator.pipeline, coordinator.ledger.state()).verify_whole()


def test_i1_a_landings_batch_does_not_stand_for_the_pipelines_batch_of_the_same_number(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=r"none of 1\b.*reset p --from 1"):
        verify(with_archive(tmp_path, batches=(0, 2), batch_ids=(0, 1)))


def test_an_archive_may_begin_later_and_under_other_numbers(tmp_path: Path) -> None:
    verify(with_archive(tmp_path, batches=(1, 2), batch_ids=(7, 8)))


def test_i7_what_an_accepted_archive_lacks_it_does_not_hold(tmp_path: Path) -> None:
    """A person has accepted the hole in the archive, which begins a generation; nobody accepts it in another table."""
    coordinator = with_archive(tmp_path, batches=(0, 2), batch_ids=(0, 2))
    coordinator.ledger.append(lambda _: [GenerationStarted(2, {T0: 30}, {"t": "id-t"}, "cluster", "committed", "", "")])
    state = coordinator.ledger.state()
    extent = ArchiveSource.of(coordinator.settings, coordinator.pipeline, state).extent()
    assert extent.partitions == {T0: PartitionExtent(20, 30)}
    with pytest.raises(OffsetsExpired, match="cannot be built again"):
        everything("p", coordinator.ledger.events(), state, extent, is_archive=True)


def test_an_archive_of_any_size_is_counted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query keeps in memory what it counts."""
    coordinator = with_archive(tmp_path, batches=(0, 2, 2), batch_ids=(0, 2, 2))
    log = TableLog.open(coordinator.tables.archive or pytest.fail("it has an archive"))
    assert log is not None
    ranges, ids = [OffsetRange("t", 0, 3, 13), OffsetRange("t", 0, 13, 26), OffsetRange("t", 1, 0, 9)], {"t": "id-t"}
    for at_once in (4, 9, 23, 1_000):
        monkeypatch.setattr("include.sources.archive._OFFSETS_AT_ONCE", at_once)
        assert records_in(log.table, ranges, ids) == 7 + 6
    assert records_in(log.table, [], ids) == 0


def test_the_whole_archive_is_merged_also_after_a_reset_that_reads_kafka_from_the_start(tmp_path: Path) -> None:
    """The generation has committed nothing yet, and Kafka may hold none of these records any more."""
    coordinator = with_archive(tmp_path, batches=range(3), batch_ids=range(3))
    coordinator.ledger.append(lambda _: [GenerationStarted(2, {T0: 0}, {"t": "id-t"}, "cluster", "earliest", "", "")])
    found = Backfills(coordinator).preview(BackfillRequest(source="archive"))
    assert found["records_max"] == 30
