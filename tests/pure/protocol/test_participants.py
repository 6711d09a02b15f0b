from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.batch import Batch, BatchKey, Pin
from include.protocol.beginnings import positions_to_begin_with
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import LedgerBehindTarget, RetryableError, TargetBehindLedger, TerminalError
from include.protocol.generations import after_a_loss
from include.protocol.ledger_events import BatchPlanned, GenerationStarted, Rollback
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import told_since
from include.protocol.participants import (
    NOWHERE,
    REVISIONS,
    Land,
    Leave,
    Overtaken,
    Position,
    Replace,
    Stamp,
    Where,
    chunk_may_land,
    decide,
    repair_due,
    standing,
)
from include.protocol.planning import Idle, NewBatch, plan_next
from include.protocol.replace_base import base_of
from tests.support.batches import COUNTS, batch, committed, source

HERE = Where("p", "history")

CHAIN = Position(1, 3, 0, "d3", version=7, identity="t")
NEXT = BatchKey(1, 4)


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (CHAIN, Land(Stamp(4))),
        (replace(CHAIN, version=9, digest=None), Land(Stamp(4))),  # maintained, and the log was cleaned
        (replace(CHAIN, marker=4, digest="mine"), Leave()),
        (replace(CHAIN, marker=4, digest="other"), Replace(Stamp(4, 1), CHAIN)),
        (replace(CHAIN, marker=4, digest=None), Replace(Stamp(4, 1), CHAIN)),  # nobody knows what it holds
        (replace(CHAIN, marker=4, revision=6, digest="other"), Replace(Stamp(4, 7), CHAIN)),
        (replace(CHAIN, revision=1), Replace(Stamp(4), CHAIN)),  # a zombie wrote batch 3 anew after the point
        (replace(CHAIN, marker=5), Overtaken()),
        (replace(CHAIN, generation=2, marker=0), Overtaken()),
    ],
)
def test_i11_what_an_attempt_does_follows_from_the_position(found: Position, decision: object) -> None:
    assert decide(found, CHAIN, NEXT, digest="mine", where=HERE) == decision


@pytest.mark.parametrize("found", [replace(CHAIN, marker=2), replace(CHAIN, identity="other"), NOWHERE])
def test_i3_a_table_that_lacks_what_the_last_batch_left_is_refused(found: Position) -> None:
    with pytest.raises(TargetBehindLedger):
        decide(found, CHAIN, NEXT, digest="mine", where=HERE)
    with pytest.raises(TargetBehindLedger):
        plan(heads={"h": replace(found, marker=found.marker - CHAIN.marker)})  # after batch 0
    assert positions_to_begin_with({"h": CHAIN}, {"h": found}) == {"h": found}  # a person has looked at it


def test_i3_a_table_that_was_left_out_for_a_time_lacks_batches() -> None:
    """It stands where it stood when the file last named it, and batches have landed since."""
    named = replace(CHAIN, left_out=True)
    assert Position.from_json(named.to_json()) == named
    assert Position.from_json(CHAIN.to_json()) == CHAIN
    with pytest.raises(TargetBehindLedger, match="left this table out"):
        decide(CHAIN, named, NEXT, digest="mine", where=HERE)
    with pytest.raises(TargetBehindLedger, match="not as the last batch left it"):
        decide(NOWHERE, named, NEXT, digest="mine", where=HERE)
    assert positions_to_begin_with({"h": named}, {"h": CHAIN}) == {"h": CHAIN}  # filled, or accepted by a person
    assert positions_to_begin_with({"h": named}, {}) == {"h": named}  # the file still leaves it out


def test_a_table_that_nobody_names_is_accepted_as_it_is() -> None:
    assert decide(CHAIN, None, NEXT, digest="mine", where=HERE) == Land(Stamp(4))
    with pytest.raises(TargetBehindLedger, match="left this table out"):
        decide(replace(CHAIN, marker=2), None, NEXT, digest="mine", where=HERE)  # batch 3 is missing
    retried = replace(CHAIN, marker=4, digest="other")
    assert decide(retried, None, NEXT, digest="mine", where=HERE) == Replace(Stamp(4, 1), None)
    assert base_of(None, [(2, BatchKey(1, 2)), (5, NEXT), (6, NEXT)], NEXT, HERE) == 4


def test_a_stamp_counts_batches_and_revisions_and_no_further() -> None:
    assert Stamp.of(Stamp(4, 7).number) == Stamp(4, 7)
    assert Stamp(4, REVISIONS - 1).number < Stamp(5).number
    last = replace(CHAIN, marker=4, revision=REVISIONS - 1, digest="other")
    with pytest.raises(TerminalError, match="anew too often"):
        decide(last, CHAIN, NEXT, digest="mine", where=HERE)


def test_a_replace_starts_before_the_first_live_commit_after_the_chain() -> None:
    assert base_of(CHAIN, [(7, BatchKey(1, 3)), (10, NEXT), (12, NEXT)], NEXT, HERE) == 9  # 8 and 9 are a chunk's, say
    assert base_of(NOWHERE, [(0, NEXT)], NEXT, HERE) is None
    assert base_of(NOWHERE, [(1, NEXT)], NEXT, HERE) == 0
    with pytest.raises(TerminalError, match="no longer tells"):
        base_of(CHAIN, [], NEXT, HERE)


def test_a_chunk_lands_only_where_no_live_batch_has_begun() -> None:
    assert chunk_may_land(replace(CHAIN, version=9), CHAIN, CHAIN.generation)
    assert not chunk_may_land(replace(CHAIN, marker=4), CHAIN, CHAIN.generation)
    assert chunk_may_land(CHAIN, None, CHAIN.generation + 1), "no batch of this generation has begun here"
    assert not chunk_may_land(CHAIN, None, CHAIN.generation)


FIRST = replace(CHAIN, marker=0)


def plan(heads: dict[str, Position], end: int = 10) -> object:
    """The plan after batch 0, which left the table `h` at FIRST."""
    state = fold([BatchPlanned(batch(0)), replace(committed(batch(0)), positions={"h": FIRST})])
    return plan_next("p", state, source({("t", 0): (0, end)}), 50, heads=heads)


def test_i11_a_repair_is_planned_although_the_source_is_idle() -> None:
    assert plan({"h": FIRST}) == Idle()
    off = replace(FIRST, revision=1)
    found = plan({"h": off, "new": NOWHERE})
    assert isinstance(found, NewBatch)
    assert (found.batch.ranges, found.batch.mends, found.lag_records) == ((), ("h",), 0)
    assert found.stands_on == {"h": FIRST, "new": NOWHERE}
    with_records = plan({"h": off}, end=12)
    assert isinstance(with_records, NewBatch)
    assert (with_records.batch.width, with_records.batch.mends) == (2, ("h",))
    assert repair_due({"h": FIRST}, {"h": FIRST, "new": off}) == []


def test_i11_a_table_that_the_file_leaves_out_for_a_while_keeps_its_position() -> None:
    """Otherwise what a lost attempt has left there would be accepted when the table comes back."""
    assert standing({"left out": FIRST}, {"h": NOWHERE}) == {"left out": FIRST, "h": NOWHERE}
    assert positions_to_begin_with({"left out": FIRST}, {"h": NOWHERE}) == {"left out": FIRST, "h": NOWHERE}
    found = plan({"h": FIRST, "new": NOWHERE})
    assert found == Idle()
    assert repair_due({"h": FIRST}, {"h": replace(FIRST, marker=1)}) == ["h"], "so it is mended"


def test_i10_a_table_that_holds_a_batch_which_was_never_planned_is_told() -> None:
    """The ledger and the target came back from an old copy. An attempt would find the table ahead for ever."""
    with pytest.raises(LedgerBehindTarget, match="never planned"):
        plan({"h": replace(FIRST, marker=1)})
    with pytest.raises(LedgerBehindTarget, match="never planned"):
        plan({"h": replace(FIRST, generation=2)})


def test_i2_a_fresh_ledger_plans_nothing_over_tables_that_know_batches() -> None:
    with pytest.raises(RetryableError, match="other tables hold batches"):
        plan_next("p", fold([]), source({("t", 0): (0, 9)}), 50, heads={"h": CHAIN})
    started = after_a_loss(3, [], source({("t", 0): (0, 9)}), "lost", "plan")
    assert fold([started]).generation == 4


def test_what_is_new_in_events_and_commits_comes_back_as_it_was_written() -> None:
    one = replace(batch(1), mends=("h",), pins={"rates": Pin(3, "id")})
    positions = {"h": CHAIN, "q": NOWHERE}
    commit = replace(committed(one), positions=positions, rollback=Rollback(5, 2))
    begun = after_a_loss(1, [], source({("t", 0): (0, 9)}), "r", "w")
    events = [BatchPlanned(one, positions), commit, replace(begun, positions=positions)]
    assert [from_row({**to_row(e), "attempt_id": "a"}) for e in events] == events
    metadata = replace(CommitMetadata.of(one, "target", COUNTS, {}, "a", "v"), positions=positions, made_from=-1)
    assert CommitMetadata.loads(metadata.dumps()) == metadata


def test_i3_pins_are_part_of_what_a_batch_is() -> None:
    one = replace(batch(0), pins={"rates": Pin(3, "id")})
    for other in (Pin(4, "id"), Pin(3, "another table")):
        assert one.fingerprint != replace(batch(0), pins={"rates": other}).fingerprint
    old = replace(one, form=1)
    assert old.fingerprint == replace(batch(0), form=1).fingerprint  # as Lakemark 0.1.0 wrote it
    assert Batch.from_json(old.to_json()) == old
    assert "form" not in old.to_json()


def test_a_batch_without_ranges_mends_something() -> None:
    with pytest.raises(ValueError, match="at least one unless it mends"):
        replace(batch(0), ranges=())


def test_i3_a_chunk_that_left_a_table_out_while_a_generation_began_is_told() -> None:
    """It landed between the fence, which has the decision, and the record of it."""
    begun = GenerationStarted(2, {}, {}, None, origin="committed", reason="", started_by="me", positions={"h": CHAIN})
    state = LedgerState(left_out=frozenset({"h", "other"}))
    assert told_since(begun, state, set()).positions == {"h": replace(CHAIN, left_out=True)}
    assert told_since(begun, state, {"h"}) is begun, "the decision knew of it"
    assert told_since(replace(begun, positions=None), state, set()).positions is None
