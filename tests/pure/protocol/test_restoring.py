"""Going back to a checkpoint: which offsets, and when it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.checkpoints import Checkpoint, checkpoints_of
from include.protocol.errors import OffsetsExpired, TerminalError, TopicRecreated
from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.reading_began import reading_began, topics_started
from include.protocol.restoring import file_brought_by, go_back, positions_after
from tests.support.batches import batch, committed, source

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
FIRST, SECOND = batch(0, ("t", 0, 0, 10)), batch(1, ("t", 0, 10, 20), ("t", 1, 0, 5), ("u", 0, 7, 9))
ASIDE = {"quarantine": Position(1, 0, 0, version=3, identity="q")}
EVENTS: list[Event] = [
    TopicsStarted(1, 0, {T0: 0}, {"t": "id-t"}, "cluster"),
    BatchPlanned(FIRST),
    replace(committed(FIRST), positions=ASIDE, table_id="x"),
    TopicsStarted(1, 1, {U0: 7}, {"u": "id-u"}, "cluster"),
    BatchPlanned(SECOND),
    replace(committed(SECOND), positions=ASIDE, table_id="x"),
]
TO = checkpoints_of("p", EVENTS)[0]
HELD = source({("t", 0): (0, 30), ("t", 1): (0, 30), ("u", 0): (0, 30)})


def back(to: Checkpoint = TO, held: SourceExtent = HELD) -> GenerationStarted:
    state = fold(EVENTS)
    first = reading_began(EVENTS, state)
    return go_back(state, to, held, first, origin="checkpoint 1/0", reason="why", started_by="who")


def test_it_begins_where_the_checkpoint_ended() -> None:
    started = back()
    assert (started.generation, started.origin) == (2, "checkpoint 1/0")
    assert started.start_offsets[T0] == 10
    assert (started.restored_to, started.table_id, started.positions) == (1, "x", ASIDE)
    assert started.brings_rows
    assert not started.is_promotion


def test_i7_what_was_first_read_later_is_read_again_from_its_start() -> None:
    """Else `start: latest` would pass over what the tables no longer hold."""
    started = back()
    assert started.start_offsets == {T0: 10, T1: 0, U0: 7}
    assert started.topic_ids == {"t": "id-t", "u": "id-u"}


def test_i7_a_clone_knows_where_the_reading_of_its_rows_began() -> None:
    """Else a table that takes the target's place would have records that were never to be read, or lack some."""
    gone = TopicPartition("gone", 0)
    known = FirstOffsets({T0: 4, gone: 3}, (OffsetRange("t", 0, 6, 8),), ("u",), {"t": "id-t", "gone": "id-gone"})
    begun = replace(back(), origin="clone of p/s 1/0", first=known)
    state = fold([begun])
    found = reading_began([begun], state)
    assert (found.offsets, found.skipped, found.recreated) == ({T0: 4}, known.skipped, ("u",))
    assert found.lost_before(T0, 5) == OffsetRange("t", 0, 4, 5)


def test_i7_a_clone_reads_a_topic_that_came_later_from_where_that_was_begun() -> None:
    later = FirstOffsets({T0: 0, U0: 7}, topic_ids={"t": "id-t", "u": "id-u"})
    begun = go_back(LedgerState(), TO, HELD, later, origin="clone of p/s 1/0", reason="why", started_by="who")
    assert (begun.start_offsets, begun.topic_ids) == ({T0: 10, U0: 7}, {"t": "id-t", "u": "id-u"})


def test_the_file_of_a_generation_came_with_its_rows_or_with_those_it_went_back_to() -> None:
    def started(generation: int, origin: str) -> GenerationStarted:
        return replace(back(), generation=generation, origin=origin, rules="a digest")

    told = [
        started(3, "cut over to q q-1 2/5"),
        started(4, "savepoint before-q-1 2/5"),  # as the first file
        started(6, "cut over to q q-2 2/7"),
        started(7, "savepoint s 3/9"),  # as of the first cut over
        started(9, "commit metadata"),  # made again from the target's commits: nobody knows more
    ]
    assert [file_brought_by(told, n) for n in range(1, 11)] == [0, 0, 3, 0, 0, 6, 3, 3, 9, 9]


def test_i7_the_first_batch_that_read_a_topic_says_where_that_began() -> None:
    """A ledger that was lost has it from there."""
    held = {T0: 20, T1: 5, U0: 9}
    assert topics_started(SECOND, held, {"t"}) == EVENTS[3]
    assert topics_started(SECOND, held, {"t", "u"}) is None
    first = topics_started(FIRST, {T0: 10, T1: 3}, set())
    assert first is not None
    assert first.start_offsets == {T0: 0, T1: 3}, "it has read nothing of the other partition, which began later"


def test_a_topic_that_the_file_no_longer_names_is_left_out() -> None:
    started = back(held=source({("t", 0): (0, 30), ("t", 1): (0, 30)}))
    assert (started.start_offsets, started.topic_ids) == ({T0: 10, T1: 0}, {"t": "id-t"})


def test_i7_what_kafka_has_dropped_since_is_told_and_nothing_begins() -> None:
    for low in (0, 10):
        assert back(held=source({("t", 0): (low, 30), ("t", 1): (0, 30), ("u", 0): (7, 30)}))
    with pytest.raises(OffsetsExpired) as refused:
        back(held=source({("t", 0): (11, 30), ("t", 1): (2, 30), ("u", 0): (0, 30)}))
    assert "t-0[10, 11), t-1[0, 2)" in str(refused.value)


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (source({("t", 0): (0, 9), ("t", 1): (0, 9), ("u", 0): (0, 9)}), "the log ends at 9"),
        (source({("t", 1): (0, 9), ("u", 0): (0, 9)}), "no such partition"),
    ],
)
def test_i7_a_partition_that_has_lost_its_end_is_told(held: SourceExtent, found: str) -> None:
    with pytest.raises(OffsetsExpired, match=found):
        back(held=held)


def test_i7_another_topic_or_cluster_is_told() -> None:
    with pytest.raises(TopicRecreated, match="id-t"):
        back(held=replace(HELD, topic_ids={"t": "new", "u": "id-u"}))
    with pytest.raises(TopicRecreated, match="id-u"):
        back(held=replace(HELD, topic_ids={"t": "id-t", "u": "new"}))
    with pytest.raises(TopicRecreated, match="cluster"):
        back(held=replace(HELD, cluster_id="another"))


@pytest.mark.parametrize("to", [replace(TO, positions=None), replace(TO, point=replace(TO.point, version=None))])
def test_one_that_does_not_say_where_the_tables_stood_is_none_to_go_to(to: Checkpoint) -> None:
    with pytest.raises(TerminalError, match="does not say where every table stood"):
        back(to)


def test_a_table_that_was_not_there_is_emptied() -> None:
    stood = positions_after(ASIDE, {"quarantine": "q", "history": "h", "archive": None})
    assert stood == {**ASIDE, "history": replace(NOWHERE, identity="h"), "archive": NOWHERE}
