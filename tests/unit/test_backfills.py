"""Backfills as they are planned from the ledger and the target's log: no Spark, no Kafka."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from include.backfills import Backfills, Wish
from include.generation_change import GenerationChange
from include.protocol.batch import FENCE
from include.protocol.ledger_events import BatchPlanned
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange
from include.steps import Steps
from tests.support.batches import batch, committed, source
from tests.support.hand_made import clean_log, commit, land, make_target, steps_of

HELD = source({("t", 0): (0, 100)})


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    def held(self: Steps, state: object = None) -> SourceExtent:
        return HELD

    monkeypatch.setattr(Steps, "source", held)
    monkeypatch.setattr(Backfills, "_holder", lambda self, wish, state: SimpleNamespace(extent=lambda: HELD))
    return steps_of(tmp_path)


def wish(start: int, end: int, **more: int) -> Wish:
    return Wish(ranges=[OffsetRange("t", 0, start, end)], **more)


def test_i3_a_backfill_of_a_ledger_that_was_made_anew_is_no_earlier_one(steps: Steps) -> None:
    target = make_target(steps)
    for n in range(2):
        steps.ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), committed(batch(n))])
        land(target, n + 1, batch(n))
    first = Backfills(steps).plan(wish(0, 10), "r1", "", "test")
    land(target, 3, first.batch(0))
    # One that leaves no marker in the target: it makes a new table.
    second = Backfills(steps).plan(Wish(into="new"), "r2", "", "test")
    assert [first.number, second.number] == [1, 2]
    commit(target, 4)
    clean_log(target)
    steps.ledger.set_aside()
    GenerationChange(steps, lambda: None).rebuild("lost", "test")
    planned = Backfills(steps).plan(wish(5, 15), "r3", "", "test")
    assert [chunk.state for chunk in Backfills(steps).chunks(planned)] == ["waiting"]
    assert planned.number not in (1, 2), "quarantined records and rows name the backfill that wrote them"
    assert Backfills(steps).plan(wish(5, 15), "r4", "", "test").number == planned.number + 1


def test_i3_no_chunk_begins_with_a_marker_that_is_there(steps: Steps) -> None:
    """Nothing but backfills has landed, and the ledger is gone: nobody can notice that."""
    target = make_target(steps)
    lost = [Backfills(steps).plan(wish(0, 20, records_per_chunk_max=10), f"r{n}", "", "test") for n in range(2)]
    land(target, 1, lost[0].batch(1))
    commit(target, 2, markers={lost[1].batch(0).app_id: FENCE})
    clean_log(target)
    steps.ledger.set_aside()
    planned = Backfills(steps).plan(wish(0, 20, records_per_chunk_max=10), "r2", "", "test")
    assert [chunk.state for chunk in Backfills(steps).chunks(planned)] == ["waiting", "waiting"]
    assert planned.number == 3
