"""Batches that take about as long as is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from include.protocol.batch_size import LEAST_OFFSETS, offsets_at_most
from include.protocol.ledger_events import AttemptEnded, AttemptStarted, BatchCommitted, BatchPlanned
from include.protocol.ledger_fold import fold
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.ledger_state import LedgerState
from include.protocol.settlement import Settle, settle
from tests.support.batches import batch, committed, landed

MAX = 50_000_000


def test_without_a_wish_the_limit_is_the_size() -> None:
    assert offsets_at_most(LedgerState(), None, 500_000) == 500_000


def test_while_nothing_is_known_a_batch_is_as_small_as_is_cheap() -> None:
    assert offsets_at_most(LedgerState(), 60, MAX) == LEAST_OFFSETS
    assert offsets_at_most(LedgerState(), 60, 300) == 300


def sizes(seconds_of: Callable[[int], float | None], wanted: float, batches: int) -> list[int]:
    """The sizes of batches from an endless backlog; `seconds_of` says how long a batch of a size takes."""
    state, at, found = LedgerState(), 0, []
    for number in range(batches):
        size = offsets_at_most(state, wanted, MAX)
        one = batch(number, ("t", 0, at, at + size))
        commit = replace(committed(one), attempt_seconds=seconds_of(size))
        state = LedgerState(batches=(*state.batches, BatchRecord(one, (), commit)))
        found.append(size)
        at += size
    return found


def test_sizes_grow_to_the_one_that_takes_as_long_as_is_wanted() -> None:
    found = sizes(lambda n: 3 + n * 9e-6, 60, 8)
    assert found == sorted(found), "none takes longer than is wanted"
    assert 3 + found[-1] * 9e-6 == pytest.approx(60, rel=0.01)


def test_sizes_settle_where_large_batches_are_slower_than_their_size_says() -> None:
    found = sizes(lambda n: 3 + (n * 9e-6) ** 1.5, 60, 60)
    assert 3 + (found[-1] * 9e-6) ** 1.5 == pytest.approx(60, rel=0.05)


def test_a_wish_that_no_batch_can_meet_makes_small_ones() -> None:
    assert set(sizes(lambda n: 3 + n * 9e-6, 1, 5)) == {LEAST_OFFSETS}


def test_a_time_that_nobody_told_is_passed_over() -> None:
    known, lost = batch(0, ("t", 0, 0, 40_000)), batch(1, ("t", 0, 40_000, 50_000))
    records = (
        BatchRecord(known, (), replace(committed(known), attempt_seconds=4.0)),
        BatchRecord(lost, (), committed(lost)),
    )
    assert offsets_at_most(LedgerState(batches=records), 6, MAX) == 60_000
    repair = replace(batch(1), ranges=(), mends=("history",))
    after = BatchRecord(repair, (), replace(committed(repair), attempt_seconds=2.0))
    assert offsets_at_most(LedgerState(batches=(records[0], after)), 6, MAX) == 60_000


def test_settle_records_how_long_the_attempt_took_whose_commit_it_is() -> None:
    one = batch(0)
    attempts = [
        event
        for name, seconds in (("other", 9.0), ("attempt", 2.5))
        for event in (
            AttemptStarted(1, 0, name, "h", "cli"),
            AttemptEnded(1, 0, name, "applied", {"merge": seconds, "read": 1.0}),
        )
    ]
    record = fold([BatchPlanned(one), *attempts]).batches[0]
    outcome = settle(record, 0, landed(one), None)
    assert isinstance(outcome, Settle)
    assert outcome.event.attempt_seconds == 3.5


def test_what_older_ledgers_say_of_a_commit_is_still_read() -> None:
    row = to_row(committed(batch(0)))
    del row["details"]["attempt_seconds"]
    event = from_row(row)
    assert isinstance(event, BatchCommitted)
    assert event.attempt_seconds is None
