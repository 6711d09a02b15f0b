"""What a run sets out to do, and when it is done."""

from __future__ import annotations

from include.protocol.batch import Batch, BatchKey
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition, offsets_as_argument, offsets_from_argument
from include.protocol.runs import RunPlan

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def ledger(*ends: tuple[int, int], committed: int) -> list:
    """Batch n ends at ends[n] in partitions 0 and 1; the first `committed` are committed."""
    events: list = []
    starts = (0, 0)
    for n, stops in enumerate(ends):
        ranges = tuple(OffsetRange("t", p, a, b) for p, (a, b) in enumerate(zip(starts, stops, strict=True)) if a < b)
        batch = Batch("p", 1, n, ranges, {"t": "id"}, "c")
        events.append(BatchPlanned(batch))
        if n < committed:
            events.append(BatchCommitted(1, n, batch.fingerprint, n + 1, "now", "a", None))
        starts = stops
    return events


def state(*ends: tuple[int, int], committed: int) -> LedgerState:
    return fold(ledger(*ends, committed=committed))


def ids(run: RunPlan, of: LedgerState) -> list[int]:
    return [record.batch.batch_id for record in run.batches(of)]


def test_a_run_is_done_when_every_partition_stands_at_its_end() -> None:
    run = RunPlan(BatchKey(1, 0), {T0: 10, T1: 5})
    assert not run.is_done(state((10, 4), committed=1))
    assert not run.is_done(state((10, 4), (10, 5), committed=1))  # planned is not committed
    assert run.is_done(state((10, 4), (10, 5), committed=2))
    assert run.is_done(state((12, 5), committed=1))


def test_a_run_ends_with_the_batch_that_reaches_its_end() -> None:
    """A cleared run does not take the work of later runs for its own."""
    run = RunPlan(BatchKey(1, 1), {T0: 10, T1: 5})
    later = state((4, 0), (8, 5), (10, 5), (20, 20), (30, 30), committed=5)
    assert ids(run, later) == [1, 2]
    assert ids(RunPlan(BatchKey(1, 3), {T0: 40}), later) == [3, 4]  # not reached yet: as far as planned


def test_a_partition_that_was_empty_is_no_hindrance() -> None:
    run = RunPlan(BatchKey(1, 0), {T0: 10, T1: 0})
    assert run.is_done(state((10, 0), committed=1))


def test_i5_nothing_is_left_of_a_run_whose_generation_has_ended() -> None:
    started = GenerationStarted(2, {T0: 0}, {"t": "id"}, "c", "earliest", "r", "me")
    after = fold([*ledger((10, 4), committed=1), started])
    run = RunPlan(BatchKey(1, 0), {T0: 99})
    assert run.is_done(after)
    assert run.batches(after) == []


def test_a_run_travels_as_json_and_as_an_argument() -> None:
    run = RunPlan(BatchKey(3, 7), {T0: 10, TopicPartition("a-1-b", 12): 5})
    assert RunPlan.from_json(run.to_json()) == run
    assert offsets_as_argument(run.until) == "a-1-b-12:5,t-0:10"
    assert offsets_from_argument("a-1-b-12:5,t-0:10") == run.until
    assert offsets_from_argument("") == {}
