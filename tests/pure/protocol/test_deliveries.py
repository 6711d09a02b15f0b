"""Which commits of the point a system after it still has to get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.deliveries import after_delivery, due
from include.protocol.errors import TerminalError
from include.protocol.participants import NOWHERE
from include.protocol.settlement import LandedCommit
from tests.support.batches import batch, landed


def commit(batch_id: int, version: int, table: str = "t", generation: int = 1) -> LandedCommit:
    return replace(landed(batch(batch_id, generation=generation)), table_version=version, table_id=table)


LOG = [commit(1, 7), commit(0, 4, generation=-1), commit(0, 3)]  # newest first; a chunk between two batches


def versions(found: list[LandedCommit]) -> list[int]:
    return [one.table_version for one in found]


def test_commits_are_due_in_order_and_once_chunks_among_them() -> None:
    found = NOWHERE
    for left in ([3, 4, 7], [4, 7], [7], []):
        waiting = due(found, "t", LOG, True, "here")
        assert versions(waiting) == left
        found = after_delivery(waiting[0]) if waiting else found


def test_a_table_in_the_targets_place_is_delivered_from_its_first_commit() -> None:
    at_the_end = after_delivery(LOG[0])
    assert versions(due(at_the_end, "another", [commit(0, 2, "another")], True, "here")) == [2]


def test_a_commit_that_the_log_does_not_hold_is_told() -> None:
    for stranger in (commit(2, 7), commit(2, 8)):
        with pytest.raises(TerminalError, match="the table's log does not hold"):
            due(after_delivery(stranger), "t", LOG, True, "here")


def test_what_log_clean_up_has_removed_is_told_if_it_was_not_delivered() -> None:
    seen = after_delivery(commit(0, 1))
    assert versions(due(seen, "t", LOG, True, "here")) == [3, 4, 7]
    with pytest.raises(TerminalError, match="no longer holds all"):
        due(seen, "t", LOG, False, "here")
