"""Where a landing goes on after the file had no `merge_every` for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.handover import (
    ORIGIN,
    Overtaken,
    hole_in,
    may_be_overtaken,
    only_in_archive,
    resumed,
)
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from include.protocol.planning import PartitionExtent, SourceExtent, expired
from include.protocol.ranges import OffsetRange, TopicPartition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "id-1"}


def started(offsets: dict[TopicPartition, int], ids: dict[str, str] = IDS) -> TopicsStarted:
    return TopicsStarted(1, 0, offsets, ids, "c")


def begun(generation: int, offsets: dict[TopicPartition, int]) -> GenerationStarted:
    return GenerationStarted(generation, offsets, IDS, "c", "earliest", "", "")


def batches(*spans: dict[TopicPartition, tuple[int, int]], generation: int = 1, read: int | None = None) -> list[Event]:
    """Committed batches of one generation; unless told otherwise, each has read all that its ranges span."""
    events: list[Event] = []
    for n, span in enumerate(spans):
        ranges = tuple(OffsetRange(*tp, *ends) for tp, ends in sorted(span.items()))
        batch = Batch("p", generation, n, ranges, IDS, "c")
        counts = BatchCounts(batch.width if read is None else read, 0, 0, 0, 0, 0)
        events += [
            BatchPlanned(batch),
            BatchCommitted(generation, n, batch.fingerprint, n, None, None, counts if read != -1 else None),
        ]
    return events


LANDED = [started({T0: 0, T1: 0}), *batches({T0: (0, 10)}, {T0: (10, 20), T1: (0, 5)})]


@pytest.mark.parametrize(
    ("merging", "goes_on_at", "records"),
    [
        (batches({T0: (0, 20), T1: (0, 5)}, {T0: (20, 30)}, {T0: (30, 40), T1: (5, 6)}), {T0: 40, T1: 6}, 21),
        # When the line was removed, not all that had landed was merged: a batch reaches from there beyond the landing.
        (batches({T0: (0, 10)}, {T0: (10, 30)}), {T0: 30, T1: 5}, 20),
        (batches({T0: (0, 10)}, {T0: (10, 30)}, read=7), {T0: 30, T1: 5}, 7),  # transactions leave gaps
        # A later generation has read some of it again.
        (
            [
                *batches({T0: (0, 20)}, {T0: (20, 30)}),
                begun(2, {T0: 20, T1: 0}),
                *batches({T0: (20, 45)}, generation=2),
            ],
            {T0: 45, T1: 5},
            25,
        ),
    ],
)
def test_i7_a_landing_goes_on_where_the_merged_batches_end(merging, goes_on_at, records) -> None:
    found = Overtaken.of(LANDED, [started({T0: 0, T1: 0}), *merging])
    assert found is not None
    assert (found.started.generation, found.started.origin) == (2, ORIGIN)
    assert (found.started.start_offsets, found.records) == (goes_on_at, records)
    assert fold([*LANDED, found.started]).next_offsets == goes_on_at
    assert found.applied_to(fold(LANDED)) == fold([*LANDED, found.started])


@pytest.mark.parametrize(
    ("landing", "merging"),
    [
        (LANDED, batches({T0: (0, 20), T1: (0, 5)})),  # as ever
        ([*LANDED, begun(2, {T0: 0, T1: 0})], batches({T0: (0, 20), T1: (0, 5)})),  # it was told to read again
        ([*LANDED, begun(2, {T0: 0, T1: 5})], batches({T0: (0, 20)}, {T0: (20, 30)})),  # and does so first
        (LANDED, batches({T0: (0, 20)}, {T0: (20, 30)}, read=-1)),  # nobody knows how many records there were
        (LANDED, batches({T0: (22, 30)})),  # nobody knows what became of the records between
        # Two generations' batches overlap: their counts do not add up to what lies between.
        (LANDED, [*batches({T0: (0, 30)}), begun(2, {T0: 25, T1: 0}), *batches({T0: (25, 45)}, generation=2)]),
    ],
)
def test_else_it_stays_where_it_is(landing: Sequence[Event], merging: Sequence[Event]) -> None:
    ranges = [event for event in merging if isinstance(event, BatchPlanned)]
    first = dict.fromkeys((T0, T1), 22 if ranges[0].batch.ranges[0].start_offset else 0)
    assert Overtaken.of(landing, [started(first), *merging]) is None


def test_offsets_of_a_topic_that_was_made_anew_do_not_count() -> None:
    landing = [started({T0: 0}, {"orders": "id-2"})]
    merging = [started({T0: 0}), *batches({T0: (0, 20)})]
    assert Overtaken.of(landing, merging) is None
    assert not may_be_overtaken(fold(landing), fold(merging))
    assert may_be_overtaken(LedgerState(), fold(merging))


def test_a_landing_begins_where_the_pipeline_has_merged_to() -> None:
    def state(topic_id: str) -> LedgerState:
        return LedgerState(next_offsets={T0: 7}, topic_ids={"orders": topic_id}, cluster_id="c")

    event = started({T0: 0, T1: 0})
    assert resumed(event, state("id-1"), {}).start_offsets == {T0: 7, T1: 0}
    assert resumed(event, state("id-2"), {}).start_offsets == {T0: 0, T1: 0}  # another topic of that name
    assert resumed(event, LedgerState(), {}) == event


def test_i7_a_landing_begins_where_the_archives_hole_begins() -> None:
    """The file left the archive out for the second and the third batch; they are merged, and not archived."""
    at = Position(1, 0, 0, version=1, identity="t")
    events = batches({T0: (0, 10)}, {T0: (10, 20), T1: (0, 5)}, {T0: (20, 30)})
    positions = iter([at, replace(at, left_out=True), replace(at, left_out=True)])
    events = [
        replace(e, positions={"archive": next(positions)}) if isinstance(e, BatchCommitted) else e for e in events
    ]
    hole = hole_in("archive", events, IDS)
    assert hole == {T0: 10, T1: 0}
    assert hole_in("archive", events, {"orders": "id-2"}) == hole_in("history", events, IDS) == {}
    merged = fold([started({T0: 0, T1: 0}), *events])
    assert resumed(started({T0: 0, T1: 0}), merged, hole).start_offsets == {T0: 10, T1: 0}
    # What Kafka has dropped of it was merged, and stays a hole.
    assert resumed(started({T0: 15, T1: 9}), merged, hole).start_offsets == {T0: 15, T1: 5}
    # What was not merged is not passed over.
    assert resumed(started({T0: 35, T1: 0}), merged, {}).start_offsets == {T0: 30, T1: 5}


def test_i7_what_has_landed_is_not_said_to_be_lost() -> None:
    merged = fold([started({T0: 0, T1: 0}), *batches({T0: (0, 5), T1: (0, 5)})])
    error = expired("p", "p", OffsetRange("orders", 0, 5, 12))

    def kafka(first: int) -> SourceExtent:
        return SourceExtent("c", IDS, {T0: PartitionExtent(first, 40), T1: PartitionExtent(5, 9)})

    assert "put `merge_every` back" in str(only_in_archive(error, fold(LANDED), merged, kafka(12)))
    assert only_in_archive(error, fold(LANDED), merged, kafka(21)) is error  # the landing had 20
    assert only_in_archive(error, LedgerState(), merged, kafka(12)) is error  # there never was one
