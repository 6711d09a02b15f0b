"""What maintenance decides: when files are rewritten, which tombstones may go, and what must not be read again then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from include.protocol.backfill import Backfill
from include.protocol.batch import Batch
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BackfillEnded, BackfillPlanned, BatchPlanned, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.maintenance import (
    Purgeable,
    PurgeMark,
    TableShape,
    purgeable,
    purged_from,
    purged_offsets,
    purged_to_text,
    raised,
    verify_not_purged,
    verify_reset_not_purged,
    wants_optimize,
)
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.support.batches import batch, committed

NOW = datetime(2026, 6, 1, tzinfo=UTC)
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("small", "deleted", "due"), [(20, 0, False), (21, 0, True), (1, 200, False), (1, 201, True), (0, 0, False)]
)
def test_files_are_rewritten_when_it_pays(small: int, deleted: int, due: bool) -> None:
    shape = TableShape(small, small, 10, 10, 0, 1, records=1000, deleted=deleted)
    assert wants_optimize(shape, small_files_max=20) is due


def lived(days_ago: float, *events: object) -> list[tuple]:
    return [(NOW - timedelta(days=days_ago), event) for event in events]


def ran(days_ago: float, *batches: Batch) -> list[tuple]:
    return lived(days_ago, *(event for b in batches for event in (BatchPlanned(b), committed(b))))


def reset(generation: int, offset: int, topic_id: str = "id-t", origin: str = "earliest") -> GenerationStarted:
    recreated = () if topic_id == "id-t" else ("t",)
    return GenerationStarted(
        generation, {T0: offset}, {"t": topic_id}, "cluster", origin, "why", "ada", recreated=recreated
    )


def of_new_topic(n: int) -> Batch:
    return replace(batch(n, generation=2), topic_ids={"t": "id-new"})


def reads_again(number: int) -> Backfill:
    chunks = ((OffsetRange("t", 0, 0, 5),),)
    return Backfill("p", number, f"r{number}", chunks, {"t": "id-t"}, "cluster", "same", {}, "", "")


def due(offset: int, topic_id: str = "id-t", of: int = 1, backfills: tuple[int, ...] = ()) -> list[Purgeable]:
    return [Purgeable("t", topic_id, 0, offset, of, backfills)]


OLD = [*ran(9, batch(0)), *ran(8, batch(1))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        (ran(1, batch(0)), []),  # young
        (OLD, due(20)),
        ([*OLD, *lived(8, BatchPlanned(batch(2)))], due(20)),  # planned, not committed
        ([*OLD, *ran(1, batch(2))], due(20)),
        ([*OLD, *lived(1, reset(2, 20, origin="committed"))], due(20, of=2)),
        ([*OLD, *lived(1, reset(2, 5))], []),  # being read again from there
        ([*OLD, *lived(9, reset(2, 0)), *ran(9, batch(0, generation=2))], []),
        ([*OLD, *lived(1, reset(2, 0)), *ran(1, batch(0, generation=2), batch(1, generation=2))], due(20, of=2)),
    ],
)
def test_i9_tombstones_may_go_once_their_batch_is_old_and_nothing_is_being_read_again(
    rows: list, expected: list
) -> None:
    assert purgeable(rows, NOW - timedelta(days=7)) == expected


def test_i9_offsets_of_a_topic_that_is_gone_do_not_purge_those_of_the_new_one() -> None:
    anew = [*OLD, *lived(7.5, reset(2, 0, "id-new"))]
    assert purgeable(anew, NOW - timedelta(days=7)) == []
    assert purgeable([*anew, *ran(1, of_new_topic(0))], NOW - timedelta(days=7)) == []
    lately = [*anew, *ran(7.2, of_new_topic(0)), *ran(1, of_new_topic(1))]
    assert purgeable(lately, NOW - timedelta(days=7)) == due(10, "id-new", of=2)


def test_i9_a_mark_names_the_topic_by_its_id() -> None:
    [of_new] = due(10, "id-new", of=2)
    assert of_new.to(5) == PurgeMark(of_new.topic, "id-new", of_new.partition, 5)


def test_i9_rows_of_backfills_may_go_once_they_are_at_their_end() -> None:
    planned = [BackfillPlanned(reads_again(n)) for n in (1, 2, 3)]
    ended = [BackfillEnded(n, "applied", "ada") for n in (1, 2)]
    assert purgeable([*OLD, *lived(1, *planned, *ended)], NOW - timedelta(days=7)) == due(20, backfills=(-1, -2))


MARKS = (PurgeMark("t", "id-t", 0, 100),)


@pytest.mark.parametrize("replays", [False, True])
def test_i9_a_backfill_that_would_bring_deleted_rows_back_is_refused(replays: bool) -> None:
    with pytest.raises(TerminalError, match=r"rows that are deleted could come back.*do that"):
        verify_not_purged("p", "same", replays, MARKS, lambda: "do that")
    verify_not_purged("p", "new", False, MARKS, lambda: "do that")
    verify_not_purged("p", "same", replays, (), lambda: "do that")


@pytest.mark.parametrize(
    ("started", "back_to", "refused"),
    [
        (reset(2, 20, origin="committed"), None, False),
        (reset(2, 10, origin="batch 1"), None, True),
        (reset(2, 0), None, True),
        (reset(2, 0, "id-new"), None, False),  # records that were never read
        (reset(2, 10, origin="backfill 1"), None, False),  # its table holds all deletes
        (reset(2, 10, origin="batch 1"), 1, False),  # RESTORE took batch 1 away: version 1 is batch 0's
        (reset(2, 0), 1, True),
    ],
)
def test_i9_a_reset_that_would_bring_deleted_rows_back_is_refused(
    started: GenerationStarted, back_to: int | None, refused: bool
) -> None:
    state = fold(event for _, event in OLD)
    verify_reset_not_purged("p", state, started, (), back_to, lambda: "do that")
    if refused:
        with pytest.raises(TerminalError, match=r"rows that are deleted could come back.*do that"):
            verify_reset_not_purged("p", state, started, MARKS, back_to, lambda: "do that")
    else:
        verify_reset_not_purged("p", state, started, MARKS, back_to, lambda: "do that")


def test_what_was_purged_is_written_down_with_the_table() -> None:
    marks = (PurgeMark("t'${env:HOME}\\", "id-t", 0, 7), PurgeMark("ü", None, 1, 3))
    text = purged_to_text(marks)
    assert purged_from({"lakemark.tombstonesPurgedTo": text}) == marks
    assert "$" not in text and text.isascii(), "it becomes part of a statement"
    assert purged_from({}) == ()
    assert raised(marks, [replace(marks[0], offset=9), replace(marks[1], offset=2)]) == (
        replace(marks[0], offset=9),
        marks[1],
    )


def test_marks_of_before_they_had_ids_are_of_whatever_topic_has_the_name() -> None:
    old = purged_from({"lakemark.tombstonesPurgedTo": '[{"topic":"t","partition":0,"offset":7}]'})
    assert old == (PurgeMark("t", None, 0, 7),)
    with pytest.raises(TerminalError, match="rows that are deleted could come back"):
        verify_not_purged("p", "same", False, old, str)
    marks = raised(old, [PurgeMark("t", "id-old", 0, 9), PurgeMark("t", "id-t", 0, 5)])
    assert purged_offsets(marks, {"t": "id-t"}) == {T0: 7}, "what an audit may miss"
