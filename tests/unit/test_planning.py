from __future__ import annotations

import pytest

from include.protocol.errors import OffsetsExpired, TopicRecreated
from include.protocol.ledger_events import BatchPlanned, LedgerState, fold
from include.protocol.planning import Idle, NewBatch, PendingBatch, plan_next, verify_source
from tests.support.batches import batch, committed, source


def state_after(*batches) -> LedgerState:
    return fold(event for b in batches for event in (BatchPlanned(b), committed(b)))


def ranges_of(plan) -> list[str]:
    assert isinstance(plan, NewBatch)
    return [str(r) for r in plan.batch.ranges]


def test_the_first_batch_starts_at_the_earliest_offset() -> None:
    plan = plan_next("p", LedgerState(), source({("t", 0): (3, 20), ("t", 1): (0, 0)}), 1000)
    assert ranges_of(plan) == ["t-0[3, 20)"]
    assert plan.batch.batch_id == 0
    assert plan.lag_records == 0


def test_the_first_batch_may_start_at_the_latest_offset() -> None:
    assert plan_next("p", LedgerState(), source({("t", 0): (3, 20)}), 1000, "latest") == Idle()


def test_i1_a_batch_starts_where_the_last_one_ended() -> None:
    plan = plan_next("p", state_after(batch(0), batch(1)), source({("t", 0): (0, 35)}), 10)
    assert ranges_of(plan) == ["t-0[20, 30)"]
    assert plan.lag_records == 5


def test_i1_a_pending_batch_comes_back_as_it_was_planned() -> None:
    pending = batch(0)
    state = fold([BatchPlanned(pending)])
    assert plan_next("p", state, source({("t", 0): (0, 99)}), 50) == PendingBatch(pending)


def test_a_partition_that_appears_later_is_read_from_its_beginning() -> None:
    extents = source({("t", 0): (0, 10), ("t", 1): (0, 4)})
    for start in ("earliest", "latest"):
        assert ranges_of(plan_next("p", state_after(batch(0)), extents, 100, start)) == ["t-1[0, 4)"]


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


def test_i7_a_planned_range_must_be_held_in_full() -> None:
    verify_source(batch(1), source({("t", 0): (10, 20)}))
    for extent in [(11, 20), (10, 19)]:
        with pytest.raises(OffsetsExpired):
            verify_source(batch(1), source({("t", 0): extent}))
