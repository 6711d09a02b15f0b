from __future__ import annotations

import json
from dataclasses import replace

import pytest

from include.protocol.batch import BatchKey
from include.protocol.errors import FencedGeneration, LedgerConflict, TerminalError
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BatchPlanned,
    Event,
    GenerationStarted,
    MaintenanceEnded,
    PipelineMoved,
    TablesLeftOut,
    TopicsStarted,
    TurnTaken,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.proofs import Look, PipelineAudited, outcome
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.support.batches import batch, committed

SECOND = GenerationStarted(2, {TopicPartition("t", 0): 5}, {"t": "id-t"}, "cluster", "committed", "why", "me@host")
START = TopicsStarted(1, 0, {TopicPartition("t", 0): 0}, {"t": "id-t"}, "cluster")
LOOK = Look(1, 4, "2026-01-01T00:00:00+00:00", findings=0, version=7)
AUDITED = PipelineAudited(1, 4, "me@host", {"target": {"log": LOOK, "rows": LOOK}, "archive": {"log": LOOK}})

MAINTAINED = MaintenanceEnded(1, "2026-01-01T00:00:00+00:00", "me@host")
LEFT_OUT = TablesLeftOut(1, "p backfill 1 chunk 0", ("history",))


def test_the_fold_tells_progress_and_attempts() -> None:
    first, second = batch(0), batch(1)
    state = fold(
        [
            BatchPlanned(first),
            AttemptStarted(1, 0, "a", "host", "airflow"),
            AttemptStarted(1, 0, "b", "host", "airflow"),
            AttemptEnded(1, 0, "b", "applied", {"read": 1.0}),
            committed(first),
            BatchPlanned(second),
        ]
    )
    assert [a.outcome for a in state.batches[0].attempts] == [None, "applied"]
    assert (state.committed_through, state.next_batch_id) == (0, 2)
    assert state.pending.batch == second
    assert state.next_offsets == {TopicPartition("t", 0): 20}


@pytest.mark.parametrize(
    "events",
    [
        [BatchPlanned(batch(1))],
        [BatchPlanned(batch(0)), BatchPlanned(batch(0))],
        [BatchPlanned(batch(0)), BatchPlanned(batch(1))],
        [BatchPlanned(batch(0)), committed(batch(0)), BatchPlanned(batch(1, ("t", 0, 9, 20)))],
        [BatchPlanned(batch(0)), committed(batch(0)), BatchPlanned(batch(1, ("t", 0, 11, 20)))],
        [BatchPlanned(batch(0)), committed(batch(0)), committed(batch(0))],
        [BatchPlanned(batch(0)), committed(batch(0, ("t", 0, 0, 11)))],
        [committed(batch(0))],
        [START, START],
        [START, BatchPlanned(batch(0, ("t", 0, 2, 10)))],
        [BatchPlanned(batch(0)), replace(SECOND, generation=1)],
        [SECOND, SECOND],
        [BatchPlanned(batch(0, generation=2))],
        [SECOND, BatchPlanned(batch(0, ("t", 0, 6, 9), generation=2))],
        [SECOND, LEFT_OUT],
    ],
    ids=[
        "not first",
        "twice",
        "two pending",
        "overlap",
        "gap",
        "two commits",
        "other ranges",
        "never planned",
        "two starts",
        "not from the start",
        "a generation again",
        "a generation twice",
        "a generation without a start",
        "not from the generation's start",
        "left out in an ended generation",
    ],
)
def test_i1_events_that_cannot_follow_are_refused(events: list) -> None:
    with pytest.raises(LedgerConflict):
        fold(events)


def test_a_new_generation_starts_anew_and_ignores_late_words() -> None:
    state = fold(
        [
            BatchPlanned(batch(0)),
            SECOND,
            BatchPlanned(batch(0, ("t", 0, 5, 9), generation=2)),
            AttemptEnded(1, 0, "late", "applied"),
        ]
    )
    assert (state.generation, len(state.batches)) == (2, 1)
    assert state.next_offsets == {TopicPartition("t", 0): 9}
    assert state.generations == (SECOND,)


def test_i5_a_batch_of_an_ended_generation_is_fenced_and_not_taken_for_another() -> None:
    state = fold([BatchPlanned(batch(0)), SECOND, BatchPlanned(batch(0, ("t", 0, 5, 9), generation=2))])
    assert state.planned("p", BatchKey(2, 0)).batch.generation == 2
    with pytest.raises(FencedGeneration):
        state.planned("p", BatchKey(1, 0))
    for never in (BatchKey(2, 1), BatchKey(3, 0)):
        with pytest.raises(TerminalError, match="never planned"):
            state.planned("p", never)


def test_offsets_before_any_batch() -> None:
    first, second = batch(0), batch(1, ("t", 0, 10, 15), ("t", 1, 0, 7))
    state = fold([BatchPlanned(first), committed(first), BatchPlanned(second)])
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert state.offsets_before(0) == {t0: 0, t1: 0}
    assert state.committed_offsets == state.offsets_before(1) == {t0: 10, t1: 0}
    assert state.offsets_before(2) == state.next_offsets == {t0: 15, t1: 7}


@pytest.mark.parametrize(
    "event",
    [
        TopicsStarted(1, 4, {TopicPartition("t", 0): 3, TopicPartition("t", 1): 0}, {"t": "id-t"}, "cluster"),
        BatchPlanned(batch(4, ("t", 0, 1, 2), ("t", 3, 0, 9))),
        AttemptStarted(1, 4, "a", "host", "cli"),
        AttemptEnded(1, 4, "a", "RangeGap", {"read": 0.5}, "what to do", {"target": "lane: few"}),
        TurnTaken(1, "maintenance", "2026-01-01T00:00:00+00:00"),
        TurnTaken(1, "maintenance", "2026-01-01T00:00:00+00:00", "files"),
        PipelineMoved(1, "an id", "s3://bucket/lake"),
        replace(SECOND, skipped=(OffsetRange("t", 0, 3, 5),), target_version=7),
        committed(batch(4)),
        AUDITED,
        MAINTAINED,
        LEFT_OUT,
        fold([BatchPlanned(batch(0)), committed(batch(0)), AUDITED, MAINTAINED, LEFT_OUT]).snapshot(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_survive_the_ledger(event) -> None:
    assert reread(event) == event


def reread(event: Event) -> Event:
    row = to_row(event)
    return from_row({**row, "details": json.loads(json.dumps(row["details"]))})


def test_the_newest_look_of_each_depth_counts() -> None:
    """A look by log takes no finding in the rows back, and no event ends a proof."""
    found, later = replace(LOOK, findings=2), replace(LOOK, batch_id=5)
    deep, plain = (replace(AUDITED, looks={"target": looks}) for looks in ({"rows": found}, {"log": later}))
    state = fold([AUDITED, deep, SECOND, plain])
    assert state.proofs == {"target": {"log": later, "rows": found}, "archive": {"log": LOOK}}
    outcomes = [outcome(state.proofs.get(name, {})) for name in ("target", "archive", "history")]
    assert outcomes == ["findings", "proven", "never proven"]
    assert fold([BatchPlanned(batch(0)), committed(batch(0))]).proofs == {}


@pytest.mark.parametrize(
    ("event", "name", "expected"),
    [
        (AUDITED, "proofs", AUDITED.looks),
        (MAINTAINED, "maintained_at", MAINTAINED.ended_at),
        (LEFT_OUT, "left_out", {"history"}),
    ],
)
def test_i3_a_kept_state_holds_what_was_known_and_contradicts_one_that_does_not(
    event: Event, name: str, expected: object
) -> None:
    before = [BatchPlanned(batch(0)), committed(batch(0))]
    kept = fold([*before, event]).snapshot()
    assert getattr(fold([kept]), name) == getattr(fold([*before, event, kept]), name) == expected
    with pytest.raises(LedgerConflict, match="contradict"):
        fold([*before, kept])


def test_a_kept_state_of_an_earlier_lakemark_holds_no_proofs() -> None:
    before = [BatchPlanned(batch(0)), committed(batch(0))]
    row = to_row(fold(before).snapshot())
    del row["details"]["proofs"]
    assert fold([*before, from_row(row)]).proofs == {}


def test_what_chunks_have_left_out_does_not_hold_for_a_new_generation() -> None:
    before = [BatchPlanned(batch(0)), committed(batch(0))]
    assert fold([*before, LEFT_OUT, SECOND]).left_out == frozenset()
