"""What has landed, in the words of a source: with `merge_every` it takes Kafka's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.lake.ledger import Ledger
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.sources.landing import LandingSource
from tests.support.batches import batch, committed

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def state(offsets: dict[TopicPartition, int], topic_id: str = "id-1", **more) -> LedgerState:
    return LedgerState(next_offsets=offsets, topic_ids={"orders": topic_id}, cluster_id="c", **more)


def landed(folder: Path, of: LedgerState) -> LandingSource:
    sections = {
        "source": {"bootstrap_servers": "k:1", "topics": ["orders"], "schema": "id BIGINT"},
        "change": {"keys": ["id"]},
        "target": {"table": "lake://silver/p"},
    }
    landing = Pipeline.model_validate({"name": "p", **sections, "archive": "lake://bronze/p", "merge_every": 3}).landing
    assert landing is not None
    ledgers = [Ledger(LakeUri(str(folder / name))) for name in ("merging", "ledger")]
    return LandingSource(landing, 3, *ledgers, state=of, uri=LakeUri(str(folder / "archive")), log=None)


@pytest.mark.parametrize(
    ("landing", "merged", "ends"),
    [
        ({T0: 10, T1: 20}, {T0: 5, T1: 20}, {T0: 10, T1: 20}),
        ({T0: 10, T1: 20}, {}, {T0: 10, T1: 20}),
        ({T0: 3}, {T0: 10, T1: 20}, {T0: 10, T1: 20}),  # the landing reads again: what was merged is there
    ],
)
def test_what_was_merged_counts_as_there(tmp_path: Path, landing, merged, ends) -> None:
    source = landed(tmp_path, state(landing)).extent(state(merged))
    assert source.partitions == {tp: PartitionExtent(0, end) for tp, end in ends.items()}
    assert (source.topic_ids, source.cluster_id) == ({"orders": "id-1"}, "c")


def test_before_the_landing_has_begun_there_is_what_was_merged(tmp_path: Path) -> None:
    source = landed(tmp_path, LedgerState()).extent(state({T0: 10}))
    assert (source.topic_ids, source.partitions) == ({"orders": "id-1"}, {T0: PartitionExtent(0, 10)})


IDS = {"orders": "id-orders"}
OWN = [batch(n, ("orders", 0, 10 * n, 10 * n + 10)) for n in range(3)]  # each has read ten records
AT = Position(1, 0, 0, version=1, identity="t")


def after(made: LandingSource, *left_out: int) -> LedgerState:
    """The pipeline has merged three batches itself. Args: left_out: those without the archive."""
    events: list[Event] = []
    for n, of in enumerate(OWN):
        positions = {"archive": replace(AT, left_out=n in left_out)}
        events += [BatchPlanned(of), replace(committed(of), positions=positions)]
    return made.merging.append(lambda _: events)


def holding(made: LandingSource, *spans: tuple[int, int]) -> LandingSource:
    """The same, with these offsets in the archive."""
    rows = [
        {"topic": "orders", "topic_id": "id-orders", "partition": 0, "offset": n}
        for start, end in spans
        for n in range(start, end)
    ]
    write_deltalake(str(made.uri), pa.Table.from_pylist(rows), mode="overwrite")
    return replace(made, log=TableLog.open(made.uri))


@pytest.mark.parametrize(
    ("spans", "first"),
    [
        ([], 30),  # nobody has archived it
        ([(0, 30)], 0),
        ([(10, 30)], 10),  # the archive came later
        ([(0, 10), (20, 30)], 20),  # a hole
        ([(0, 20)], 30),  # a hole at the end
        ([(0, 10), (11, 30)], 20),  # the second batch lacks one record
    ],
)
def test_i7_the_archive_begins_behind_its_last_hole(tmp_path: Path, spans: list[tuple[int, int]], first: int) -> None:
    """Otherwise a reset would accept the hole, and a batch would read nothing where there were records."""
    made = landed(tmp_path, LedgerState())
    merged = after(made)
    found = holding(made, *spans) if spans else made
    assert found.extent(merged, from_first=True).partitions == {T0: PartitionExtent(first, 30)}
    for offset in (0, 10, 20, 30):
        if offset >= first:
            found.verify_holds({T0: offset}, IDS)
        else:
            with pytest.raises(TerminalError, match="reset p__landing --from earliest"):
                found.verify_holds({T0: offset}, IDS)


def test_what_no_ledger_knows_begins_with_the_archives_rows(tmp_path: Path) -> None:
    """The ledgers were lost, or rebuilt from what was left of the tables' logs."""
    made = holding(landed(tmp_path, state({T0: 30}, "id-orders")), (4, 30))
    assert made.extent(LedgerState(), from_first=True).partitions == {T0: PartitionExtent(4, 30)}


def test_i3_an_archive_that_was_left_out_is_whole_once_its_landing_has_filled_it(tmp_path: Path) -> None:
    made = landed(tmp_path, LedgerState())
    merged = after(made, 1)
    stands_on = {"archive": replace(AT, left_out=True), "history": replace(AT, left_out=True)}
    assert holding(made, (0, 10), (20, 30)).filled(stands_on, merged) == stands_on
    assert holding(made, (0, 10), (12, 30)).filled(stands_on, merged) == stands_on
    assert holding(made, (0, 30)).filled(stands_on, merged) == {**stands_on, "archive": AT}


def test_i7_a_partition_that_was_added_later_is_there_from_its_first_record(tmp_path: Path) -> None:
    """The landing reads it from there, though no start says so."""
    source = landed(tmp_path, state({T0: 10, T1: 5})).extent(LedgerState())
    assert source.partitions == {T0: PartitionExtent(0, 10), T1: PartitionExtent(0, 5)}


def test_offsets_of_a_topic_that_was_made_anew_do_not_mix(tmp_path: Path) -> None:
    source = landed(tmp_path, state({T0: 2}, "id-2")).extent(state({T0: 10}))
    assert (source.topic_ids, source.partitions) == ({"orders": "id-2"}, {T0: PartitionExtent(0, 2)})


def test_i7_what_has_landed_of_a_topic_comes_before_the_topic_that_has_its_name_now(tmp_path: Path) -> None:
    """Otherwise it would be left behind for good: Kafka does not have it any more."""
    old = Batch("p__landing", 1, 0, (OffsetRange("orders", 0, 0, 10),), {"orders": "id-1"}, "c")
    committed = BatchCommitted(1, 0, old.fingerprint, 1, None, None, None)
    anew = GenerationStarted(2, {T0: 0}, {"orders": "id-2"}, "c", "earliest", "", "", recreated=("orders",))
    started = TopicsStarted(1, 0, {T0: 0}, {"orders": "id-1"}, "c")
    ledger = Ledger(LakeUri(str(tmp_path / "ledger")))
    ledger.append(lambda _: [started, BatchPlanned(old), committed, anew])
    found = landed(tmp_path, ledger.state())
    source = found.extent(state({T0: 4}))
    assert (source.topic_ids, source.partitions) == ({"orders": "id-1"}, {T0: PartitionExtent(0, 10)})
    pending = BatchRecord(Batch("p", 1, 1, (OffsetRange("orders", 0, 4, 10),), {"orders": "id-1"}, "c"))
    found.verify_holds_pending(state({T0: 10}, batches=(pending,)))
    source = found.extent(state({T0: 10}))  # all of it is merged
    assert (source.topic_ids, source.partitions) == ({"orders": "id-2"}, {T0: PartitionExtent(0, 0)})


def test_all_that_waits_is_one_batch(tmp_path: Path) -> None:
    found = landed(tmp_path, state({T0: 10, T1: 20}))
    batch = found.unmerged("p", state({T0: 10, T1: 5}))
    assert batch is not None
    assert batch.ranges == (OffsetRange("orders", 1, 5, 20),)
    assert found.unmerged("p", state({T0: 10, T1: 20})) is None


def test_a_batch_of_kafka_waits_until_the_archive_holds_it(tmp_path: Path) -> None:
    batch = Batch("p", 1, 0, (OffsetRange("orders", 0, 0, 8),), {"orders": "id-1"}, "c")
    merged = state({T0: 8}, batches=(BatchRecord(batch),))
    landed(tmp_path, state({T0: 8})).verify_holds_pending(merged)
    with pytest.raises(RetryableError, match="lakemark run p__landing"):
        landed(tmp_path, state({T0: 7})).verify_holds_pending(merged)
