"""Where a table must stand when a generation begins."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.batch import BatchKey
from include.protocol.beginnings import before_what_never_landed
from include.protocol.participants import NEVER, NOWHERE, Position

FIRST, SECOND = BatchKey(1, 0), BatchKey(1, 1)
LIVE = [(1, FIRST), (4, SECOND), (6, SECOND)]
HEAD = Position(1, 1, revision=1, digest="d", version=7, identity="here")


def test_a_table_that_is_named_stands_at_its_head() -> None:
    named = replace(HEAD, marker=0, revision=0, version=1)
    assert before_what_never_landed(HEAD, named, LIVE, SECOND) == HEAD
    assert before_what_never_landed(HEAD, NOWHERE, LIVE, SECOND) == HEAD, "there was no table, so it is no other one"


def test_i11_nothing_in_another_table_has_landed() -> None:
    elsewhere = replace(HEAD, identity="elsewhere")
    assert before_what_never_landed(HEAD, elsewhere, LIVE, None) == replace(NOWHERE, version=0, identity="here")
    untouched = replace(NOWHERE, version=3, identity="here")
    assert before_what_never_landed(untouched, elsewhere, [], None) == untouched


def test_i11_a_planned_batch_in_a_table_that_nobody_names_has_not_landed() -> None:
    found = before_what_never_landed(HEAD, None, LIVE, SECOND)
    assert found == Position(1, 0, 0, version=3, identity="here")
    first = before_what_never_landed(replace(HEAD, marker=0), None, LIVE, FIRST)
    assert (first.marker, first.version) == (NEVER, 0)


def test_a_table_that_nobody_names_is_accepted_with_what_earlier_batches_have_left_there() -> None:
    assert before_what_never_landed(HEAD, None, LIVE, BatchKey(1, 2)) == HEAD
    assert before_what_never_landed(HEAD, None, LIVE, None) == HEAD
    assert before_what_never_landed(HEAD, None, [], SECOND) == HEAD, "log clean-up has removed its commits"
