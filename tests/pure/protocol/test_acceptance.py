"""A table that lacks rows is filled again, or accepted by its name; nothing is accepted in silence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from include.protocol.acceptance import Lack, lacks_of_the_target, verify_accepted
from include.protocol.batch import Batch
from include.protocol.errors import TargetBehindLedger
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import TargetView, verify_target_not_behind
from tests.support.batches import batch, committed

TP = TopicPartition("t", 0)
EVENTS = [TopicsStarted(1, 0, start_offsets={TP: 0}, topic_ids={"t": "id-t"}, cluster_id="cluster")]
STATE = fold([*EVENTS, *(event for n in range(3) for event in (BatchPlanned(batch(n)), committed(batch(n))))])
HISTORY = Lack("history", expected="all", found="less", first=1)  # the batches that end at 20 and 30


def started(offset: int, origin: str = "batch 1") -> GenerationStarted:
    return GenerationStarted(2, {TP: offset}, {"t": "id-t"}, "cluster", origin, "test", "test")


def target(marker: int | None = 2, back_to: int | None = None, table_id: str = "id") -> TargetView:
    return TargetView(marker, table_id, restored=None if back_to is None else (9, back_to))


@pytest.mark.parametrize(
    ("found", "first"),
    [(None, None), (target(marker=None), None), (target(back_to=1), 1), (target(back_to=2), 2), (target(), "nothing")],
)
def test_i3_what_the_target_lacks_is_filled_or_accepted_too(found: TargetView | None, first: int | str | None) -> None:
    """Else a reset or a skip for another reason would pass over it in silence."""
    lacks = lacks_of_the_target("p", "target", STATE, found)
    assert [(lack.table, lack.first) for lack in lacks] == ([] if first == "nothing" else [("target", first)])
    if lacks:
        with pytest.raises(TargetBehindLedger, match="--accept target"):
            verify_accepted("p", STATE, started(30, "committed"), lacks, accepted=())
        verify_accepted("p", STATE, started(0, "earliest"), lacks, accepted=())
        verify_accepted("p", STATE, started(30, "backfill 3"), lacks, accepted=())  # other rows take its place


def test_i3_a_restore_to_before_the_generation_began_takes_away_what_earlier_ones_have_landed() -> None:
    begun = replace(started(30, "committed"), target_version=4, table_id="id")
    state = fold([begun])
    fenced = replace(target(marker=None), is_fenced_before=True)
    [lack] = lacks_of_the_target("p", "target", state, replace(fenced, restored=(6, 3)))
    assert lack.first is None, "reading from where the generation began fills nothing"
    [lack] = lacks_of_the_target("p", "target", state, replace(fenced, restored=(6, 4)))
    assert lack.first == 0
    since = fold([begun, *(e for n in range(2) for e in (BatchPlanned(later(n)), landed_at(later(n), n + 6)))])
    with pytest.raises(TargetBehindLedger, match="--from earliest"):
        verify_target_not_behind("p", since, target(marker=1, back_to=3))
    with pytest.raises(TargetBehindLedger, match="--from 1 ") as failure:
        verify_target_not_behind("p", since, target(marker=1, back_to=6))
    assert "applies again what was removed" in failure.value.action


def test_a_state_that_begins_at_a_snapshot_does_not_name_a_batch_too_late() -> None:
    """Planning reads such a state, and advises by it."""
    before = fold([*EVENTS, *(e for n in range(3) for e in (BatchPlanned(batch(n)), landed_at(batch(n), n + 1)))])
    batches = (BatchPlanned(batch(3)), landed_at(batch(3), 4))
    recent = fold([before.snapshot(), *batches])
    assert [before.first_after(version) for version in (0, 1, 2, 3)] == [0, 1, 2, 3]
    assert [recent.first_after(version) for version in (0, 1, 2, 3)] == [None, None, None, 3]


def later(batch_id: int) -> Batch:
    return batch(batch_id, ("t", 0, 30 + 10 * batch_id, 40 + 10 * batch_id), generation=2)


def landed_at(of: Batch, version: int) -> BatchCommitted:
    return replace(committed(of), table_version=version, table_id="id")


def test_what_expired_stops_a_reset_so_it_is_given_up_first() -> None:
    skipping = replace(started(35, "committed"), skipped=(OffsetRange("t", 0, 30, 35),))
    with pytest.raises(TargetBehindLedger) as failure:
        verify_accepted("p", STATE, skipping, lacks_of_the_target("p", "target", STATE, None), accepted=())
    first, then = re.findall(r"`(lakemark [^`]*)`", failure.value.action)[:2]
    assert first == "lakemark ledger skip p --range t-0:30-35 --accept target --reason ..."
    assert then == "lakemark reset p --from earliest --reason ..."


@pytest.mark.parametrize(
    ("begun", "lack", "is_filled"),
    [
        (started(10), HISTORY, True),
        (started(0), HISTORY, True),
        (started(20), HISTORY, False),
        (started(20, "earliest"), HISTORY, True),  # all that Kafka holds
        (started(0), replace(HISTORY, first=None), False),
        (started(20, "earliest"), replace(HISTORY, is_surplus=True), False),
        (replace(started(0), generation=1), HISTORY, False),
    ],
)
def test_i3_a_generation_fills_what_it_reads_again(begun: GenerationStarted, lack: Lack, is_filled: bool) -> None:
    verify_accepted("p", STATE, begun, [lack], accepted={"history"})
    if is_filled:
        verify_accepted("p", STATE, begun, [lack], accepted=())
        return
    with pytest.raises(TargetBehindLedger) as failure:
        verify_accepted("p", STATE, begun, [lack], accepted={"archive"})
    assert failure.value.where == "p, history"
    assert "`lakemark reset p --from " in failure.value.action
    assert "the same command with --accept history" in failure.value.action


def test_the_advice_reaches_back_to_the_first_batch_that_any_table_lacks() -> None:
    lacks = [HISTORY, Lack("archive", expected="all", found="less", first=2)]
    with pytest.raises(TargetBehindLedger) as failure:
        verify_accepted("p", STATE, started(30, "committed"), lacks, accepted=())
    assert "--from 1 " in failure.value.action
    assert "--accept history --accept archive" in failure.value.action
