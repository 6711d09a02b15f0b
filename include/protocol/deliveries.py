"""Which commits of the point's table a sink still has to get. Pure.

The log of that table is the write-ahead log of every sink: it gets the commits in order, each once, whatever made them:
batches, chunks of backfills, replays, fences that bring rows, purges, writers that Lakemark does not know. A commit of
maintenance changes no row, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from include.protocol.batch import BatchKey
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NEVER
from include.protocol.progress import Progress, batch_in_words

Begin = Literal["snapshot", "start", "now"]
AGAIN, SKIP, REFUSE = "again", "skip", "refuse"  # what sinks get of a commit: what it changes; nothing; nothing yet


@dataclass(frozen=True)
class Commit:
    """A commit of the point's table, as its log tells."""

    version: int
    batch: BatchKey | None = None  # that it is of; None: of no batch of the pipeline
    attempt_id: str | None = None
    deliver: str = AGAIN
    has_accepted: bool = True  # the table of accepted changes has something of it; of a chunk nobody knows


@dataclass(frozen=True)
class Follow:
    """Deliver what these commits have changed, one after the other, oldest first; maybe none."""

    commits: tuple[Commit, ...]


@dataclass(frozen=True)
class Fill:
    """Deliver the table as it is, in place of whatever the sink has."""

    now: Progress


@dataclass(frozen=True)
class Leave:
    """Deliver nothing: only the progress moves."""

    now: Progress


def due(
    found: Progress | None,
    table_id: str,
    newest: int,
    commits: Iterable[Commit],
    reaches_back: bool,
    begin: Begin,
    where: str,
    anew: str,
) -> Follow | Fill | Leave:
    """What a sink still has to get.

    Args:
        found: where it stands, as it says itself; None: it has got nothing yet. table_id, newest: of the point's table:
            its id, and its newest version. commits: of that table, newest first; no more are taken than are needed.
        reaches_back: the log still has all commits after the version that the sink has. begin: what a sink gets first.
        anew: how a person lets the sink begin anew, for errors.

    Raises:
        TerminalError: it has got what the log does not hold, or another table; or the log no longer holds what it
            lacks.
    """
    if found is None and begin != "start":
        now = standing_at(table_id, newest, commits)
        return Fill(now) if begin == "snapshot" else Leave(now)
    seen = -1 if found is None else found.version
    if found is not None and found.table_id != table_id:
        raise _cannot_follow(where, f"table {table_id}", found.in_words, why="the table was made anew", anew=anew)
    if seen > newest:
        raise _never_landed(where, f"at most version {newest}", seen, anew)
    if not reaches_back:
        told = "log clean-up has removed some of them"
        raise _cannot_follow(where, f"the commits after version {seen}", told, why="it fell too far behind", anew=anew)
    waiting: list[Commit] = []
    for commit in commits:
        if commit.version > seen:
            if found is not None and commit.batch is not None and commit.batch == found.batch:
                expected = f"{batch_in_words(commit.batch)} in version {commit.version}"
                raise _never_landed(where, expected, f"{found.in_words} by attempt {found.attempt_id}", anew)
            waiting.append(commit)
        elif commit.batch is not None:
            if found is not None and (found.batch, found.attempt_id) != (commit.batch, commit.attempt_id):
                newest_there = f"{batch_in_words(commit.batch)} by attempt {commit.attempt_id}"
                told = f"{found.in_words} by attempt {found.attempt_id}"
                raise _never_landed(where, f"{newest_there}, the newest one up to version {seen}", told, anew)
            break
    return Follow(tuple(reversed(waiting)))


def standing_at(table_id: str, version: int, commits: Iterable[Commit]) -> Progress:
    """Where a sink stands that has got a whole version. Args: commits: newest first, up to that version."""
    newest = next((commit for commit in commits if commit.batch is not None), None)
    key = newest.batch if newest is not None and newest.batch is not None else BatchKey(0, NEVER)
    return Progress(table_id, version, *key, attempt_id=newest.attempt_id if newest is not None else None)


def after(found: Progress | None, table_id: str, commit: Commit) -> Progress:
    """Where a sink stands once it has got a commit, too."""
    if commit.batch is not None:
        return Progress(table_id, commit.version, *commit.batch, attempt_id=commit.attempt_id)
    if found is None:
        return Progress(table_id, commit.version)
    return Progress(table_id, commit.version, *found.batch, attempt_id=found.attempt_id)


def _cannot_follow(where: str, expected: str, found: str, why: str, anew: str) -> TerminalError:
    return TerminalError(
        what=f"a sink cannot go on from where it stands: {why}",
        where=where,
        expected=expected,
        found=found,
        action=anew,
    )


def _never_landed(where: str, expected: str, found: object, anew: str) -> TerminalError:
    return TerminalError(
        what="a sink has got what the table's log does not hold",
        where=where,
        expected=expected,
        found=str(found),
        action="the lake was restored from a copy, two lakes deliver to one sink, or somebody has committed by hand "
        f"what the sink had prepared: bring the right lake back; or, if this one is right: {anew}",
    )


def refused(where: str, commit: Commit, skip: str, anew: str) -> TerminalError:
    """The error of a commit that a sink must not get by itself. Args: skip: how a person leaves it out."""
    return TerminalError(
        what="a change was not to reach the sinks by itself (`--deliver refuse`), and waits for your decision",
        where=where,
        expected="a decision: nothing of it, or the table as it is",
        found=f"version {commit.version} of the target: a restore, a promotion, a backfill, or the start of a reset",
        action=f"`{skip}` leaves the sink's rows as they are, and goes on with what comes; or: {anew}",
    )


def verify_lacks(found: Progress | None, batch: BatchKey, where: str, anew: str) -> None:
    """Checks that a sink has not got a batch that is about to land. Raises TerminalError: it has."""
    if found is not None and found.batch == batch:
        raise _never_landed(where, f"nothing of {batch_in_words(batch)} yet", found.in_words, anew)


def telling(started: GenerationStarted, state: LedgerState, deliver: str | None) -> GenerationStarted:
    """The same, with what sinks get of the rows that it brings and of the records that it reads again. Of a re-created
    topic nothing was read before. Args: state: of the generation that ends. deliver: see `GenerationStarted`."""
    again = state.committed_in(started.topic_ids) if deliver == SKIP else {}
    told = {tp: end for tp, end in again.items() if started.start_offsets.get(tp, end) < end}
    return replace(started, deliver=deliver, told=told)
