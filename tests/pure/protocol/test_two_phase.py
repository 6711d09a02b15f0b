"""How a prepared transaction is named, and how it ends."""

from __future__ import annotations

import uuid

import pytest

from include.protocol.two_phase import Prepared


def test_a_name_says_what_it_was_prepared_for_in_at_most_64_bytes() -> None:
    newest = Prepared(10**18, str(uuid.uuid4()))
    assert len(newest.name().encode()) <= 64
    assert Prepared.named(newest.name()) == newest


@pytest.mark.parametrize("name", ["", "1", "1:", ":x", "1:x:y", "-1:x", "1:x y", "1:'x'", f"1:{'x' * 41}", "1:x\n"])
def test_what_is_no_name_of_ours_is_told_apart(name: str) -> None:
    assert Prepared.named(name) is None


@pytest.mark.parametrize("commit", ["", "a b", "a'; DROP TABLE x; --", "x" * 41])
def test_nothing_but_an_id_becomes_part_of_a_name(commit: str) -> None:
    with pytest.raises(ValueError, match="no name of a prepared transaction"):
        Prepared(1, commit).name()


def test_it_is_committed_only_if_the_log_holds_its_very_commit() -> None:
    prepared = Prepared(7, "mine")
    assert prepared.has_landed("mine")
    assert not prepared.has_landed("another writer's") and not prepared.has_landed(None)
