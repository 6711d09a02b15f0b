"""Which commits of the point a system after it still has to get. Pure.

The point's log is the write-ahead log of these systems: they get its commits in order, each once. Progress is a version
of that table rather than a batch id, since chunks of backfills land between batches under numbers of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from include.protocol.errors import TerminalError
from include.protocol.participants import Position
from include.protocol.settlement import LandedCommit


def after_delivery(commit: LandedCommit) -> Position:
    """Where a system stands once it has got a commit."""
    batch, digest = commit.metadata.batch, commit.metadata.digest
    return Position(
        batch.generation, batch.batch_id, 0, digest=digest, version=commit.table_version, identity=commit.table_id
    )


def seen_by(found: Position, table_id: str) -> int:
    """The version of the point's table that a system has got everything of; -1: it has got nothing of this table. A
    table that has taken the place of the one that it knew is delivered from its first commit."""
    return found.version if found.version is not None and found.identity == table_id else -1


def due(
    found: Position, table_id: str, commits: Iterable[LandedCommit], reaches_back: bool, where: str
) -> list[LandedCommit]:
    """The commits that a system still has to get, oldest first.

    Args:
        found: where it stands. commits: of the pipeline's batches in the point's log, newest first; no more are taken
            than are needed.
        reaches_back: the log still has all commits after the version that the system has seen.

    Raises:
        TerminalError: it has got a commit that the log does not hold, or the log no longer holds what it lacks.
    """
    seen = seen_by(found, table_id)
    if not reaches_back:
        raise TerminalError(
            what="the table's log no longer holds all that a system still has to get",
            where=where,
            expected=f"the commits after version {seen}",
            found="log clean-up has removed some of them",
            action="set the system up anew from the table as it is",
        )
    waiting: list[LandedCommit] = []
    for commit in commits:
        if commit.table_version > seen:
            waiting.append(commit)
            continue
        if (commit.table_version, commit.metadata.batch.key) != (seen, found.batch):
            raise _never_landed(found, seen, commit, where)
        break
    return waiting[::-1]


def _never_landed(found: Position, seen: int, newest: LandedCommit, where: str) -> TerminalError:
    """Args: newest: the newest commit of a batch up to the version that the system has seen."""
    return TerminalError(
        what="a system has got a commit that the table's log does not hold",
        where=where,
        expected=f"{found.in_words} as version {seen}",
        found=str(newest.metadata.batch.key if newest.table_version == seen else "no batch's commit"),
        action="the log was edited or restored from a copy, or two lakes deliver to one system: bring the right "
        "one back",
    )
