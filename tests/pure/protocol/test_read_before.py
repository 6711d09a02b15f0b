"""What batches have read, as an archive must still hold it."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.batch import Batch
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, GenerationStarted
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.read_before import ReadBefore
from tests.support.batches import batch, committed

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": "id-t"}


def landed(*batches: Batch) -> list[Event]:
    """Batches of ten records that were planned and committed."""
    return [event for one in batches for event in (BatchPlanned(one), committed(one))]


def again(generation: int, at: int) -> GenerationStarted:
    return GenerationStarted(generation, {T0: at}, IDS, "cluster", "batch 1", "", "")


FIRST, SECOND, THIRD = batch(0), batch(1), batch(2)


def test_the_newest_batches_come_first_and_end_where_they_begin() -> None:
    read = ReadBefore.of(landed(FIRST, SECOND, THIRD), IDS)
    assert [one.batch_id for one, _ in read.batches] == [2, 1, 0]
    assert (read.starts, read.ends) == ({T0: 0}, {T0: 30})
    assert read.newest(1).starts == {T0: 20}
    assert read.newest(0).starts == {T0: 30}
    assert [one.batch_id for one, _ in read.since({T0: 10}).batches] == [2, 1]
    assert read.since({T0: 11}).ranges == (OffsetRange("t", 0, 20, 30),)
    assert read.since({}).batches == (), "a topic that is not read any more"


def test_of_what_was_read_twice_the_later_batch_counts() -> None:
    wide = batch(0, ("t", 0, 10, 30), generation=2)
    read = ReadBefore.of([*landed(FIRST, SECOND, THIRD), again(2, 10), *landed(wide)], IDS)
    assert [one.key for one, _ in read.batches] == [(2, 0), (1, 0)]
    assert read.ranges == (OffsetRange("t", 0, 10, 30), OffsetRange("t", 0, 0, 10))


def test_what_is_not_known_is_not_counted() -> None:
    """A batch without counts; one of which a later generation has read a part; one of another topic of that name."""
    part = batch(0, ("t", 0, 15, 20), generation=2)
    read = ReadBefore.of([*landed(FIRST, SECOND), again(2, 15), *landed(part)], IDS)
    assert [one.key for one, _ in read.batches] == [(2, 0), (1, 0)]
    unknown = [
        replace(event, counts=None) if isinstance(event, BatchCommitted) and event.batch_id == 1 else event
        for event in landed(FIRST, SECOND)
    ]
    assert [one.batch_id for one, _ in ReadBefore.of(unknown, IDS).batches] == [0]
    assert ReadBefore.of(unknown, IDS).ends == {T0: 20}
    assert ReadBefore.of(landed(FIRST), {"t": "id-2"}).batches == ()
