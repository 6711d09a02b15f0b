"""Which commits of the target a sink still has to get."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from include.protocol.batch import BatchKey
from include.protocol.deliveries import Begin, Commit, Fill, Follow, Leave, after, due
from include.protocol.errors import TerminalError
from include.protocol.progress import Progress

# Newest first: a chunk between two batches, and a commit of maintenance.
LOG = [Commit(7, BatchKey(1, 1), "b"), Commit(5), Commit(4, BatchKey(-1, 0), "c"), Commit(3, BatchKey(1, 0), "a")]


def asked(
    found: Progress | None,
    commits: Sequence[Commit] = LOG,
    table: str = "t",
    reaches_back: bool = True,
    begin: Begin = "start",
) -> Follow | Fill | Leave:
    return due(found, table, commits[0].version, commits, reaches_back, begin, "here", "begin anew")


def versions(found: Follow | Fill | Leave) -> list[int]:
    assert isinstance(found, Follow)
    return [commit.version for commit in found.commits]


def test_commits_are_due_in_order_and_once_chunks_among_them() -> None:
    found: Progress | None = None
    for left in ([3, 4, 5, 7], [4, 5, 7], [5, 7], [7], []):
        waiting = asked(found)
        assert versions(waiting) == left
        if isinstance(waiting, Follow) and waiting.commits:
            found = after(found, "t", waiting.commits[0])
    assert found == Progress("t", 7, 1, 1, "b")


def test_a_commit_of_no_batch_moves_the_version_alone() -> None:
    assert after(Progress("t", 4, -1, 0, "c"), "t", Commit(5)) == Progress("t", 5, -1, 0, "c")
    assert after(None, "t", Commit(0)) == Progress("t", 0)


def test_a_new_sink_begins_as_its_file_says() -> None:
    now = Progress("t", 7, 1, 1, "b")
    assert asked(None, begin="snapshot") == Fill(now)
    assert asked(None, begin="now") == Leave(now)
    assert versions(asked(None, begin="start")) == [3, 4, 5, 7]
    assert asked(None, [Commit(0)], begin="snapshot") == Fill(Progress("t", 0))


def test_a_table_in_the_targets_place_is_told_and_not_mixed_in() -> None:
    with pytest.raises(TerminalError, match=r"the table was made anew.*What to do: begin anew"):
        asked(Progress("t", 7, 1, 1, "b"), [Commit(2, BatchKey(1, 0), "x")], table="another")


@pytest.mark.parametrize("stranger", [Progress("t", 7, 1, 2), Progress("t", 8, 1, 2), Progress("t", 5, 1, 0)])
def test_what_the_log_does_not_hold_is_told(stranger: Progress) -> None:
    with pytest.raises(TerminalError, match="the table's log does not hold"):
        asked(stranger)


def test_what_log_clean_up_has_removed_is_told_if_it_was_not_delivered() -> None:
    seen = Progress("t", 1, 1, 0)
    assert versions(asked(seen, LOG[:2])) == [5, 7]
    with pytest.raises(TerminalError, match="fell too far behind"):
        asked(seen, reaches_back=False)
    with pytest.raises(TerminalError, match="fell too far behind"):
        asked(None, reaches_back=False)
