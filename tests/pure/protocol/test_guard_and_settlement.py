from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.batch import FENCE
from include.protocol.errors import (
    BatchMismatch,
    CountsDisagree,
    FencedGeneration,
    LedgerBehindTarget,
    RangeGap,
    TargetBehindLedger,
)
from include.protocol.guard import AlreadyApplied, Apply, guard
from include.protocol.ledger_events import BatchPlanned, Rollback
from include.protocol.ledger_fold import fold
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.settlement import (
    AlreadySettled,
    NotLanded,
    Settle,
    TargetView,
    rollback_between,
    settle,
    verify_ledger_not_behind,
    verify_target_not_behind,
)
from tests.support.batches import batch, committed, landed


@pytest.mark.parametrize(("batch_id", "marker"), [(0, None), (3, 2)])
def test_the_next_batch_may_be_applied(batch_id: int, marker: int | None) -> None:
    assert guard(batch(batch_id), marker, None, 1) == Apply()


@pytest.mark.parametrize("marker", [3, 7])
def test_i3_a_landed_batch_is_already_applied(marker: int) -> None:
    one = batch(3)
    assert guard(one, marker, one.fingerprint, 1) == AlreadyApplied("verified")
    assert guard(one, marker, None, 1) == AlreadyApplied("expired")


def test_i3_another_fingerprint_is_a_mismatch() -> None:
    with pytest.raises(BatchMismatch):
        guard(batch(3), 3, batch(4).fingerprint, 1)


@pytest.mark.parametrize(("batch_id", "marker"), [(1, None), (3, 1)])
def test_i4_a_gap_is_refused(batch_id: int, marker: int | None) -> None:
    with pytest.raises(RangeGap):
        guard(batch(batch_id), marker, None, 1)


def test_i5_an_ended_generation_is_fenced() -> None:
    with pytest.raises(FencedGeneration):
        guard(batch(3), FENCE, None, 1)
    with pytest.raises(FencedGeneration):
        guard(batch(3, generation=1), 2, None, 2)


def test_settle_records_what_landed_once() -> None:
    one = batch(0)
    outcome = settle(BatchRecord(one), 0, landed(one), None)
    assert isinstance(outcome, Settle)
    assert (outcome.event.table_version, outcome.event.counts.stale, outcome.event.attempt_id) == (7, 1, "attempt")
    assert settle(BatchRecord(one, (), outcome.event), 0, landed(one), None) == AlreadySettled(outcome.event)


@pytest.mark.parametrize("marker", [None, 1])
def test_settle_knows_what_has_not_landed(marker: int | None) -> None:
    assert settle(BatchRecord(batch(2)), marker, None, None) == NotLanded()


def test_settle_believes_the_marker_when_the_metadata_is_gone() -> None:
    outcome = settle(BatchRecord(batch(2)), 2, None, None)
    assert isinstance(outcome, Settle)
    assert outcome.event.table_version is None


def test_settle_refuses_another_batch_and_a_fenced_one() -> None:
    with pytest.raises(BatchMismatch):
        settle(BatchRecord(batch(2)), 2, landed(batch(1)), None)
    with pytest.raises(FencedGeneration):
        settle(BatchRecord(batch(2)), FENCE, None, None)


@pytest.mark.parametrize(("source_rows", "applied"), [(4, 4), (6, 5), (5, 6)])
def test_i8_what_has_landed_is_recorded_and_numbers_that_do_not_add_up_are_told(source_rows: int, applied: int) -> None:
    """The marker is the truth: a ledger that refused it would stand still for good."""
    outcome = settle(BatchRecord(batch(0)), 0, landed(batch(0), source_rows, applied), None)
    assert isinstance(outcome, Settle)
    assert isinstance(outcome.problem, CountsDisagree)
    assert (outcome.event.table_version, outcome.event.counts) == (7, None)
    settled = fold([BatchPlanned(batch(0)), outcome.event])
    assert (settled.committed_through, settled.pending) == (0, None)


def test_i10_a_ledger_that_knows_less_than_the_target_is_refused() -> None:
    known = fold([BatchPlanned(batch(0)), committed(batch(0)), BatchPlanned(batch(1))])
    for marker in (None, 0, 1):
        verify_ledger_not_behind("p", known, marker)
    with pytest.raises(LedgerBehindTarget):
        verify_ledger_not_behind("p", known, 2)
    with pytest.raises(LedgerBehindTarget):
        verify_ledger_not_behind("p", LedgerState(), 0)
    with pytest.raises(FencedGeneration, match="interrupted"):
        verify_ledger_not_behind("p", known, FENCE)
    with pytest.raises(LedgerBehindTarget, match="lakemark ledger rebuild p"):
        verify_ledger_not_behind("p", LedgerState(), FENCE)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (None, "no table"),
        (TargetView(None, "id", None), "marker None"),
        (TargetView(0, "id", None), "marker 0"),
        (TargetView(1, "other", None), "table id other"),
        (TargetView(1, "id", (9, 1)), "--from 1 "),
        (TargetView(1, "id", (9, 0)), "--from 0 "),
        (TargetView(1, "id", (9, None)), "--from earliest "),
    ],
)
def test_i3_a_target_that_lacks_committed_batches_is_refused(target: TargetView | None, says: str) -> None:
    commits = [replace(committed(batch(n)), table_id="id") for n in range(2)]  # versions 1 and 2
    state = fold(event for commit in commits for event in (BatchPlanned(batch(commit.batch_id)), commit))
    verify_target_not_behind("p", state, TargetView(1, "id", None))
    with pytest.raises(TargetBehindLedger, match=says):
        verify_target_not_behind("p", state, target)
    verify_target_not_behind("p", LedgerState(), target)


def test_i3_a_batch_that_the_ledger_has_as_committed_is_not_applied_again() -> None:
    """The target was lost. A task that is cleared must not fill a new one with an old batch."""
    with pytest.raises(TargetBehindLedger, match="committed"):
        guard(batch(1), 0, None, 1, is_committed=True)
    assert isinstance(guard(batch(1), 1, batch(1).fingerprint, 1, is_committed=True), AlreadyApplied)


def test_i3_what_was_done_to_the_target_before_a_batch_landed_is_recorded() -> None:
    """RESTORE and CREATE OR REPLACE leave markers as they are, and the next search begins after the batch."""
    known, after = committed(batch(0)), replace(landed(batch(1)), table_id="t")
    assert rollback_between(known, after, None) is None
    assert rollback_between(known, after, (5, 1)) == Rollback(5, 1)
    assert rollback_between(replace(known, table_id="t"), after, None) is None
    assert rollback_between(replace(known, table_id="other"), after, (5, 1)) == Rollback(7, other_table="other")
    outcome = settle(BatchRecord(batch(1)), 1, after, Rollback(5, 1))
    assert isinstance(outcome, Settle)
    state = fold([BatchPlanned(batch(0)), known, BatchPlanned(batch(1)), outcome.event])
    with pytest.raises(TargetBehindLedger, match="--from 1"):
        verify_target_not_behind("p", state, TargetView(1, "t", None))
