from __future__ import annotations

from random import Random

import pytest

from include.protocol.batch import Batch
from include.protocol.errors import OffsetsExpired, TopicRecreated
from include.protocol.generations import restart
from include.protocol.ledger_events import BatchPlanned, Event
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import (
    Idle,
    NewBatch,
    PendingBatch,
    SourceExtent,
    Start,
    plan_next,
    start_topics,
    verify_source,
)
from tests.support.batches import batch, committed, source


def state_after(*batches) -> LedgerState:
    return fold(event for b in batches for event in (BatchPlanned(b), committed(b)))


def ranges_of(plan) -> list[str]:
    assert isinstance(plan, NewBatch)
    return [str(r) for r in plan.batch.ranges]


def started(extents: SourceExtent, start: Start = "earliest") -> list:
    event = start_topics(LedgerState(), extents, start)
    assert event is not None
    return [event]


def test_the_first_batch_starts_at_the_earliest_offset() -> None:
    extents = source({("t", 0): (3, 20), ("t", 1): (0, 0)})
    plan = plan_next("p", fold(started(extents)), extents, 1000)
    assert ranges_of(plan) == ["t-0[3, 20)"]
    assert plan.batch.batch_id == 0
    assert plan.lag_records == 0


@pytest.mark.parametrize("seed", range(40))
def test_what_sinks_shall_not_get_again_is_in_batches_of_its_own(seed: int) -> None:
    """Whatever a reset reads again, sinks get nothing of exactly the records that were read before it."""
    dice = Random(seed)
    extents = source({("t", part): (0, dice.randrange(1, 40)) for part in range(dice.randrange(1, 4))})
    events: list[Event] = [*started(extents)]
    for _ in range(dice.randrange(1, 4)):
        if isinstance(plan := plan_next("p", fold(events), extents, dice.randrange(1, 20)), NewBatch):
            events += [BatchPlanned(plan.batch), committed(plan.batch)]
    before = fold(events)
    stood = before.committed_offsets
    origin = dice.choice(["earliest", "committed", dice.randrange(before.committed_through + 1)])
    events.append(restart("p", before, extents, origin, False, reason="r", started_by="me", deliver="skip"))
    left, given = {}, {}
    for turn in range(200):
        state = fold(events)
        if turn == 2 and dice.random() < 0.5:  # a generation that only goes on forgets nothing of it
            events.append(restart("p", state, extents, "committed", False, reason="r", started_by="me"))
            continue
        if not isinstance(plan := plan_next("p", state, extents, dice.randrange(1, 9)), NewBatch):
            break
        for one in plan.batch.ranges:
            side = left if plan.batch.deliver == "skip" else given
            side.setdefault(one.topic_partition, []).extend(range(one.start_offset, one.end_offset))
        events += [BatchPlanned(Batch.from_json(plan.batch.to_json())), committed(plan.batch)]
        if dice.random() < 0.3:
            events = [from_row(to_row(fold(events).snapshot()))]
    assert isinstance(plan, Idle)
    for tp, extent in extents.partitions.items():
        assert given.get(tp, []) == [*range(stood.get(tp, 0), extent.end_offset)]
        assert all(offset < stood.get(tp, 0) for offset in left.get(tp, []))


def test_the_first_batch_may_start_at_the_latest_offset() -> None:
    state = fold(started(source({("t", 0): (3, 20)}), "latest"))
    assert plan_next("p", state, source({("t", 0): (3, 20)}), 1000) == Idle()
    assert ranges_of(plan_next("p", state, source({("t", 0): (3, 25)}), 1000)) == ["t-0[20, 25)"]


def test_i7_a_start_is_written_down_for_partitions_that_wait_and_for_empty_ones() -> None:
    extents = source({("t", 0): (0, 900), ("t", 1): (0, 1), ("t", 2): (0, 0)})
    events = started(extents)
    first = plan_next("p", fold(events), extents, 1)
    assert ranges_of(first) == ["t-0[0, 1)"]
    state = fold([*events, BatchPlanned(first.batch), committed(first.batch)])
    for lost in [{("t", 1): (1, 5)}, {("t", 2): (7, 9)}]:  # retention, before their turn came
        with pytest.raises(OffsetsExpired):
            plan_next("p", state, source({("t", 0): (0, 900), ("t", 1): (0, 1), ("t", 2): (0, 0), **lost}), 1)


def test_a_topic_that_joins_later_starts_by_itself() -> None:
    state = state_after(batch(0))
    both = source({("t", 0): (0, 10), ("u", 0): (5, 8)})
    joined = start_topics(state, both, "earliest")
    assert joined.topic_ids == {"u": "id-u"}
    assert start_topics(state.with_started(joined), both, "earliest") is None
    assert ranges_of(plan_next("p", state.with_started(joined), both, 10)) == ["u-0[5, 8)"]


def test_i1_a_batch_starts_where_the_last_one_ended() -> None:
    plan = plan_next("p", state_after(batch(0), batch(1)), source({("t", 0): (0, 35)}), 10)
    assert ranges_of(plan) == ["t-0[20, 30)"]
    assert plan.lag_records == 5


def test_i1_a_pending_batch_comes_back_as_it_was_planned() -> None:
    pending = batch(0)
    state = fold([BatchPlanned(pending)])
    assert plan_next("p", state, source({("t", 0): (0, 99)}), 50) == PendingBatch(pending)


def test_a_partition_that_appears_later_is_read_from_its_beginning() -> None:
    """Also where the topic was started at its latest offset: these records came in since."""
    extents = source({("t", 0): (0, 10), ("t", 1): (0, 4)})
    assert ranges_of(plan_next("p", state_after(batch(0)), extents, 100)) == ["t-1[0, 4)"]
    with pytest.raises(OffsetsExpired):
        plan_next("p", state_after(batch(0)), source({("t", 0): (0, 10), ("t", 1): (2, 4)}), 100)


def test_idle_when_nothing_is_new() -> None:
    assert plan_next("p", state_after(batch(0)), source({("t", 0): (0, 10)}), 100) == Idle()


@pytest.mark.parametrize(
    ("extent", "found"), [((11, 30), "starts at 11"), ((0, 9), "ends at 9")], ids=["retention", "truncation"]
)
def test_i7_what_kafka_lost_stops_the_plan(extent: tuple[int, int], found: str) -> None:
    with pytest.raises(OffsetsExpired, match=found):
        plan_next("p", state_after(batch(0)), source({("t", 0): extent}), 100)


def test_i7_a_partition_that_vanished_stops_the_plan() -> None:
    with pytest.raises(OffsetsExpired, match="no such partition"):
        plan_next("p", state_after(batch(0)), source({("t", 1): (0, 5)}), 100)


def test_i7_another_topic_or_cluster_of_that_name_stops_the_plan() -> None:
    with pytest.raises(TopicRecreated, match="id-t"):
        plan_next("p", state_after(batch(0)), source({("t", 0): (0, 50)}, t="recreated"), 100)
    other = source({("t", 0): (0, 50)})
    with pytest.raises(TopicRecreated, match="cluster"):
        plan_next("p", state_after(batch(0)), type(other)("elsewhere", other.topic_ids, other.partitions), 100)


def test_i7_the_advice_for_another_topic_holds_without_an_order_of_ones_own() -> None:
    """Without `order_by`, a reset is refused as long as the target has rows of the old topic."""
    others = source({("t", 0): (0, 50)}), source({("t", 0): (0, 50)}, t="recreated")
    for other in type(others[0])("elsewhere", others[0].topic_ids, others[0].partitions), others[1]:
        with pytest.raises(TopicRecreated) as told:
            plan_next("p", state_after(batch(0)), other, 100)
        advice = told.value.action
        assert advice.index("without `change.order_by` declare one, and a new `target.table`") < advice.index("reset p")


def test_i7_a_planned_range_must_be_held_in_full() -> None:
    verify_source(batch(1), source({("t", 0): (10, 20)}))
    for extent in [(11, 20), (10, 19)]:
        with pytest.raises(OffsetsExpired):
            verify_source(batch(1), source({("t", 0): extent}))
