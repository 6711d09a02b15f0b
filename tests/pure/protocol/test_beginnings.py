"""Where a table must stand when a generation begins."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.batch import BatchKey
from include.protocol.beginnings import before_what_never_landed
from include.protocol.participants import NEVER, NOWHERE, Position

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

    return before_what_never_landed(head, named, live, pending, restored)


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
