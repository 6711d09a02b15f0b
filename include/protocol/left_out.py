"""Tables that the pipeline file has left out for a time, and that no position tells of. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from include.protocol.batch import BatchKey
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NEVER, Positions


def with_left_out(named: Positions, heads: Positions, last: BatchKey | None) -> Positions:
    """Where tables must stand, as landed batches name it; and those that they do not name, but that earlier batches
    have written: the file did not name them when the ledger began anew.

    Args:
        heads: where the tables stand. last: until it, batches name all tables which they wrote; None: nobody knows.
    """
    unnamed = {name: head for name, head in heads.items() if name not in named and head.marker != NEVER}
    older = {name: head for name, head in unnamed.items() if last is not None and head.batch <= last}
    return {**named, **{name: replace(head, left_out=True) for name, head in older.items()}}


def known(state: LedgerState, heads: Positions) -> Positions:
    """The same, from the state of a ledger."""
    return with_left_out(state.positions, heads, last_to_name(state))


def last_to_name(state: LedgerState) -> BatchKey | None:
    """The batch until which batches name all tables that they wrote. None: the last one is an older Lakemark's, which
    named no positions, and raised no markers in tables that got no rows."""
    commit, begun = state.last_commit, state.generations[-1] if state.generations else None
    if commit is not None:
        return None if commit.positions is None else BatchKey(commit.generation, commit.batch_id)
    return None if begun is None or begun.positions is None else BatchKey(begun.generation, NEVER)


def told_since(started: GenerationStarted, state: LedgerState, known: Set[str]) -> GenerationStarted:
    """The start of a generation, whose positions also say what the ledger tells since it was decided: a chunk may land
    between the fence and the record of it.

    Args:
        known: the tables that lacked a chunk when it was decided.
    """
    positions = started.positions or {}
    since = {name: replace(positions[name], left_out=True) for name in (state.left_out - known) & positions.keys()}
    return replace(started, positions={**positions, **since}) if since else started
