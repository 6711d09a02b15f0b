from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from include.protocol.ledger_events import BatchPlanned
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import Idle, NewBatch, plan_next, share_by_lag
from include.protocol.ranges import TopicPartition
from tests.support.batches import committed, source

partitions = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 9))
lags = st.dictionaries(partitions, st.integers(0, 10_000), max_size=12)


@given(lags, st.integers(1, 20_000))
def test_shares_use_the_budget_and_are_fair(lags: dict[TopicPartition, int], budget: int) -> None:
    shares = share_by_lag(lags, budget)
    assert sum(shares.values()) == min(budget, sum(lags.values()))
    assert all(0 <= shares[tp] <= lag for tp, lag in lags.items())
    if budget >= len(lags):
        assert all(shares[tp] > 0 for tp, lag in lags.items() if lag)
    total = sum(lags.values())
    if total > budget >= len(lags):  # in proportion, except for rounding up and for what keeps others from starving
        for tp, lag in lags.items():
            assert abs(shares[tp] - lag * budget / total) <= len(lags)


growth = st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 50), max_size=4), max_size=6)


@settings(deadline=None, max_examples=60)
@given(growth, st.integers(15, 60))
def test_i1_batches_tile_every_partition(rounds: list[dict[int, int]], budget: int) -> None:
    """Whatever arrives between plans, the ranges of all batches tile each partition without gap or overlap."""
    ends: dict[int, int] = {}
    events: list = []
    for arrivals in rounds:
        for partition, records in arrivals.items():
            ends[partition] = ends.get(partition, 0) + records
        extents = source({("t", p): (0, end) for p, end in ends.items()})
        plan = plan_next("p", fold(events), extents, budget)
        if isinstance(plan, NewBatch):
            assert plan.batch.width <= budget
            events += [BatchPlanned(plan.batch), committed(plan.batch)]
    while ends:
        plan = plan_next("p", fold(events), source({("t", p): (0, end) for p, end in ends.items()}), budget)
        if isinstance(plan, Idle):
            break
        events += [BatchPlanned(plan.batch), committed(plan.batch)]
    assert _tiled(fold(events)) == {p: end for p, end in ends.items() if end}


def _tiled(state: LedgerState) -> dict[int, int]:
    """How far each partition is covered from 0 without gap or overlap."""
    covered: dict[int, int] = {}
    for record in state.batches:
        for r in record.batch.ranges:
            assert r.start_offset == covered.get(r.partition, 0)
            covered[r.partition] = r.end_offset
    return covered
