"""Where a table must stand when a generation begins."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.batch import BatchKey
from include.protocol.beginnings import before_what_never_landed, unnamed_after, unnamed_by
from include.protocol.generations import after_a_loss
from include.protocol.ledger_events import BatchPlanned
from include.protocol.ledger_fold import fold
from include.protocol.left_out import known, with_left_out
from include.protocol.participants import NEVER, NOWHERE, Position
from tests.support.batches import batch, committed, source

FIRST, SECOND = BatchKey(1, 0), BatchKey(1, 1)
LIVE = [(1, FIRST), (4, SECOND), (6, SECOND)]
HEAD = Position(1, 1, revision=1, digest="d", version=7, identity="here")


def goes_on(
    head: Position,
    named: Position | None,
    live: list[tuple[int, BatchKey]],
    pending: BatchKey | None,
    restore: tuple[int, int] | None = None,
) -> Position:
    """Args: restore: the version of the table's only RESTORE, and where it went back to."""

    def restored(since: int | None) -> tuple[int, int] | None:
        return restore if restore is not None and since is not None and restore[1] < since < restore[0] else None

    return before_what_never_landed(head, named, live, lambda batch: batch == pending, restored)


def test_a_table_that_is_named_stands_at_its_head() -> None:
    named = replace(HEAD, marker=0, revision=0, version=1)
    assert goes_on(HEAD, named, LIVE, SECOND) == HEAD
    assert goes_on(HEAD, NOWHERE, LIVE, SECOND) == HEAD, "there was no table, so it is no other one"


def test_i11_nothing_in_another_table_has_landed() -> None:
    elsewhere = replace(HEAD, identity="elsewhere")
    assert goes_on(HEAD, elsewhere, LIVE, None) == replace(NOWHERE, version=0, identity="here")
    untouched = replace(NOWHERE, version=3, identity="here")
    assert goes_on(untouched, elsewhere, [], None) == untouched


def test_i11_a_planned_batch_in_a_table_that_nobody_names_has_not_landed() -> None:
    found = goes_on(HEAD, None, LIVE, SECOND)
    assert found == Position(1, 0, 0, version=3, identity="here")
    first = goes_on(replace(HEAD, marker=0), None, LIVE, FIRST)
    assert (first.marker, first.version) == (NEVER, 0)


def test_a_table_that_nobody_names_is_accepted_with_what_earlier_batches_have_left_there() -> None:
    assert goes_on(HEAD, None, LIVE, BatchKey(1, 2)) == HEAD
    assert goes_on(HEAD, None, LIVE, None) == HEAD
    assert goes_on(HEAD, None, [], SECOND) == HEAD, "log clean-up has removed its commits"


def test_i11_what_an_attempt_has_written_over_a_restore_has_not_landed() -> None:
    named = replace(HEAD, marker=0, revision=0, digest="c", version=1)
    assert goes_on(HEAD, named, LIVE, None, restore=(5, 0)) == replace(named, version=5)
    assert goes_on(HEAD, named, LIVE[:2], None, restore=(5, 0)) == HEAD, "the RESTORE has taken away what came before"
    assert goes_on(HEAD, None, LIVE, SECOND, restore=(5, 0)) == Position(1, 0, 0, version=5, identity="here")
    elsewhere = replace(HEAD, identity="elsewhere")
    assert goes_on(HEAD, elsewhere, LIVE, None, restore=(5, 1)) == replace(NOWHERE, version=0, identity="here")
    assert goes_on(HEAD, elsewhere, LIVE[1:], None, restore=(5, 1)) == replace(NOWHERE, version=5, identity="here")


def test_i11_what_an_attempt_has_written_since_the_file_left_the_table_out_has_not_landed() -> None:
    """It had another file, which named the table."""
    named = replace(HEAD, marker=0, revision=0, digest="c", version=2, left_out=True)
    assert goes_on(HEAD, named, LIVE, None) == replace(named, version=3, left_out=False)
    assert goes_on(HEAD, named, LIVE[:1], None) == HEAD, "nobody has written it since"
    never = replace(NOWHERE, left_out=True)
    assert goes_on(HEAD, never, LIVE, None) == replace(NOWHERE, version=0, identity="here")


def test_i3_a_table_that_no_batch_names_was_left_out_if_earlier_batches_have_written_it() -> None:
    """The file did not name it when the ledger began anew; or an attempt with another file has begun to write it."""
    out = replace(HEAD, left_out=True)
    for last in (SECOND, BatchKey(1, 2), BatchKey(2, NEVER)):
        assert with_left_out({}, {"h": HEAD}, last) == {"h": out}
    for last in (FIRST, None):
        assert with_left_out({}, {"h": HEAD}, last) == {}
    assert with_left_out({}, {"h": NOWHERE}, SECOND) == {}, "it is new"
    assert with_left_out({"h": NOWHERE}, {"h": HEAD}, SECOND) == {"h": NOWHERE}


def test_i3_what_the_ledger_knows_of_a_table_follows_from_its_last_batch_or_its_beginning() -> None:
    commit = replace(committed(batch(1)), positions={})
    planned = [event for n in (0, 1) for event in (BatchPlanned(batch(n)), committed(batch(n)))][:-1]
    assert known(fold([*planned, commit]), {"h": HEAD}) == {"h": replace(HEAD, left_out=True)}
    assert known(fold([*planned, committed(batch(1))]), {"h": HEAD}) == {}, "an older Lakemark wrote it"
    begun = after_a_loss(1, [], source({}), "", "")
    assert known(fold([replace(begun, positions={})]), {"h": HEAD}) == {"h": replace(HEAD, left_out=True)}
    assert known(fold([begun]), {"h": HEAD}) == {}


def test_i11_no_batch_of_a_generation_that_does_not_name_a_table_has_landed_there() -> None:
    """A file named it for one late attempt only, and later batches have landed without it."""
    late = replace(HEAD, marker=0, revision=0, version=1)
    for commit, unnamed in ((replace(committed(batch(2)), positions={}), True), (committed(batch(2)), False)):
        events = [event for n in range(3) for event in (BatchPlanned(batch(n)), committed(batch(n)))][:-1]
        found = before_what_never_landed(late, None, LIVE[:1], unnamed_by(fold([*events, commit])), lambda since: None)
        assert found == (Position(1, NEVER, 0, version=0, identity="here") if unnamed else late)
    assert unnamed_after(2, 5, named={"h": HEAD})(BatchKey(2, 0))
    assert [unnamed_after(2, 5, named={})(BatchKey(2, n)) for n in (5, 6)] == [False, True]
    assert not unnamed_after(2, None, named={})(BatchKey(1, 0))
