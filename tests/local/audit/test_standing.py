"""The audit of where the tables before the point stand, also while the pipeline works: no Spark, no Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from include.audit.auditor import audit
from include.audit.report import Finding
from include.audit.standing import (
    lacking_findings,
    set_aside_findings,
    still_there,
    surplus_findings,
    until_mended,
)
from include.control.coordinator import Coordinator
from include.lake.ledger import Ledger
from include.protocol.batch import Batch
from include.protocol.ledger_events import BatchPlanned
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.protocol.settlement import LandedCommit
from tests.support.batches import batch, committed, landed, source
from tests.support.tables_before import ask, folder_before, land_at_the_point, land_before, with_one_batch

NAMED = Position(1, 1, 0, "d", version=3, identity="t")
MORE, LESS = "it holds what no landed batch has left there", "is not as the last batch left it"
OUT = "left this table out"


def settled(named: Position) -> LedgerState:
    commit = replace(committed(batch(1)), positions={"history": named})
    return LedgerState(batches=(BatchRecord(batch(0), commit=committed(batch(0))), BatchRecord(batch(1), (), commit)))


@pytest.mark.parametrize(
    ("found", "lacks", "holds_more"),
    [
        (replace(NAMED, version=9, digest=None), False, False),  # maintained since, and the log was cleaned
        (replace(NAMED, marker=0), True, False),
        (replace(NAMED, identity="another"), True, False),
        (NOWHERE, True, False),
        (replace(NAMED, revision=1), False, True),
        (replace(NAMED, marker=2), False, True),
    ],
)
def test_i11_a_table_that_does_not_stand_where_the_last_batch_has_left_it_is_found(
    found: Position, lacks: bool, holds_more: bool
) -> None:
    state = settled(NAMED)
    assert [LESS in f.what for f in lacking_findings("p", state, "history", found)] == [True] * lacks
    assert [MORE in f.what for f in surplus_findings("p", state, "history", found)] == [True] * holds_more
    pending = replace(state, batches=(*state.batches, BatchRecord(batch(2), stands_on=state.positions)))
    for look in (lacking_findings, surplus_findings):
        assert list(look("p", pending, "history", found)) == []  # an attempt may be at work
        assert list(look("p", state, "other", NOWHERE)) == []  # the file names it since today
    assert [OUT in f.what for f in lacking_findings("p", state, "other", NAMED)] == [True]


# set_aside_findings


def aside(version: int, of: Batch, digest: str | None, revision: int = 0, made_from: int | None = None) -> LandedCommit:
    """A commit of the quarantine."""
    metadata = replace(
        landed(of).metadata, role="quarantine", set_aside=digest, revision=revision or None, made_from=made_from
    )
    return replace(landed(of), table_version=version, metadata=metadata)


FIRST, LATE = aside(1, batch(1), "A"), aside(2, batch(1), "B", revision=1)
MENDED = aside(3, batch(2), None, made_from=1)
ADDED = aside(3, batch(2), None)
CHUNK = Batch("p", -4, 0, batch(1).ranges, {"t": "id-t"}, "cluster")


@pytest.mark.parametrize(
    ("quarantine", "named", "of_target"),
    [
        ([FIRST], 1, "A"),
        ([FIRST, LATE, MENDED], 3, "A"),  # a late write, which the next batch has taken back
        ([FIRST, LATE], 1, "A"),  # it is not taken back yet: that is a repair that is due
        ([FIRST, LATE], 2, "B"),  # the retry made it anew
        ([FIRST, LATE, aside(5, batch(3), None, made_from=1)], 5, "A"),
        ([FIRST], None, "A"),
        ([], None, "A"),  # log clean-up
        ([FIRST], 1, None),  # an older Lakemark, which names no digest
        ([FIRST, aside(2, CHUNK, "C")], 1, "A"),
    ],
)
def test_i8_a_quarantine_that_holds_what_the_batch_set_aside_has_no_finding(
    quarantine: list[LandedCommit], named: int | None, of_target: str | None
) -> None:
    position = None if named is None else replace(NAMED, version=named)
    assert [*set_aside_findings([aside(9, batch(1), of_target)], quarantine[::-1], position)] == []


@pytest.mark.parametrize(
    ("quarantine", "named", "of_target"),
    [
        ([FIRST], 1, "B"),
        ([FIRST, LATE], 2, "A"),  # the batch names the revision of another attempt
        ([FIRST, LATE], None, "A"),
        ([FIRST, LATE, ADDED], 3, "A"),  # the next batch did not notice the late write
        ([FIRST, LATE, MENDED], 3, "B"),  # the repair took back what the batch names
        # The repair itself was taken back, and with it what it had taken back before.
        ([FIRST, LATE, MENDED, aside(4, batch(2), None, revision=1, made_from=2)], 4, "A"),
    ],
)
def test_i8_a_quarantine_with_other_records_of_a_batch_is_found(
    quarantine: list[LandedCommit], named: int | None, of_target: str
) -> None:
    position = None if named is None else replace(NAMED, version=named)
    [found] = set_aside_findings([aside(9, batch(1), of_target)], quarantine[::-1], position)
    assert "the quarantine holds other records of the batch" in found.what


def test_i8_a_table_holds_what_a_repair_has_brought_back() -> None:
    """An attempt of another program replaced a batch; the winner's program was not its own, so a repair came.
    Otherwise `--deep` would prove nothing of that batch's rows any more, and pass over any harm done to them."""
    first = aside(1, batch(1), "A")
    other = aside(2, batch(1), "B", revision=1, made_from=0)
    repair = aside(4, batch(2), None, made_from=1)
    chunk = aside(3, CHUNK, "C")
    assert still_there([first, other, chunk, repair]) == [repair, chunk, first]
    assert still_there([first, other, chunk]) == [chunk, other]
    assert still_there([first, other], until=1) == [first]


def test_i8_other_records_of_a_chunk_are_found_wherever_the_live_batches_stand() -> None:
    [found] = set_aside_findings([aside(9, CHUNK, "C")], [aside(4, CHUNK, "D"), FIRST], replace(NAMED, version=1))
    assert "backfill 4 chunk 0" in found.where


# beside a working pipeline


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    ask(monkeypatch, source({("t", 0): (0, 100)}))
    return with_one_batch(tmp_path)


def begins(coordinator: Coordinator) -> Position:
    """Batch 1 is planned, and has landed before the point."""
    coordinator.ledger.append(lambda state: [BatchPlanned(batch(1), state.positions)])
    history = folder_before(coordinator, "history")
    return land_before(history, len([*history.glob("_delta_log/*.json")]), batch(1))


def lands(coordinator: Coordinator) -> None:
    positions = {"history": begins(coordinator)}
    land_at_the_point(Path(str(coordinator.tables.target)), 2, batch(1), positions)
    coordinator.ledger.append(lambda state: [replace(committed(batch(1)), positions=positions)])


def standing(coordinator: Coordinator) -> list[str]:
    report = audit(coordinator.settings, coordinator.pipeline)
    return [f.what for f in report.findings if MORE in f.what or LESS in f.what]


def before_the_second_look_at_the_ledger(patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    read, to_do = Ledger.state, [lambda: None, happens]

    def state(self: Ledger) -> LedgerState:
        if to_do:
            to_do.pop(0)()
        return read(self)

    patch.setattr(Ledger, "state", state)


@pytest.mark.parametrize("happens", [begins, lands])
def test_i11_no_repair_is_due_where_a_batch_lands_while_the_audit_reads(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Coordinator], object]
) -> None:
    def look(self: Coordinator, state: LedgerState | None = None) -> object:
        """A look at Kafka, which lies between the ledger and the tables before the point."""
        if state is not None and len(state.batches) == 1:
            happens(coordinator)
        return source({("t", 0): (0, 100)})

    monkeypatch.setattr(Coordinator, "source", look)
    assert standing(coordinator) == []


def test_i11_a_table_is_opened_again_before_the_audit_says_that_it_lacks_a_batch(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_before(folder_before(coordinator, "history"), 2, batch(0), revision=1)  # so that the audit looks twice
    before_the_second_look_at_the_ledger(monkeypatch, lambda: lands(coordinator))
    assert standing(coordinator) == []


def test_i11_what_is_wrong_is_found_at_the_second_look(coordinator: Coordinator) -> None:
    history = folder_before(coordinator, "history")
    land_before(history, 2, batch(0), revision=1)
    [found] = standing(coordinator)
    assert MORE in found
    for file in (history / "_delta_log").glob("*"):
        file.unlink()
    [found] = standing(coordinator)
    assert LESS in found


def test_until_a_repair_the_advice_is_to_make_it() -> None:
    found = [Finding("rows are missing", "p, history", "look for other writers", table) for table in ("history", "a")]
    mended, other = until_mended(found, ["history", "quarantine"], "p")
    assert mended.action.startswith("`lakemark run p`")
    assert other == found[1]
