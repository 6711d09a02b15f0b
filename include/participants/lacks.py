"""Finds the tables before the point that nobody can make what the last landed batch has left there."""

from __future__ import annotations

from collections.abc import Iterator

from include.lake.table_log import TableLog
from include.participants.bases import has_base
from include.participants.heads import Logs, restored_since
from include.protocol.acceptance import Lack
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NEVER, Position, Positions, is_older


def lacks_of(pipeline: str, logs: Logs, named: Positions, heads: Positions, state: LedgerState) -> Iterator[Lack]:
    """The tables that are others, or were rolled back, or hold rows of a batch that never landed while the version
    before these is out of reach.

    Args:
        named: as the last landed batch has left them. heads: where they are. state: of the generation that named them.
    """
    for name, log in logs.items():
        position, head = named.get(name), heads[name]
        if position is None:
            continue
        if (lack := lack_of(name, log, position, head=head, state=state)) is not None:
            yield lack
        elif log is not None and _is_stuck(pipeline, log, position, head):
            found = f"{head.in_words}, and no way back to the version before it"
            yield Lack(name, expected=position.in_words, found=found, is_surplus=True)


def lack_of(name: str, log: TableLog | None, named: Position, head: Position, state: LedgerState) -> Lack | None:
    """What a table lacks of that which the last landed batch has left there. Args: see `lacks_of`."""
    if is_older(head, named):
        return _behind(name, named, head, state)
    restored = restored_since(log, named)
    found = [_left_out(name, named, state)] if named.left_out else []
    found += [_rolled_back(name, named, restored[1], state)] if restored is not None else []
    return min(found, key=lambda lack: NEVER if lack.first is None else lack.first, default=None)


def _behind(name: str, named: Position, head: Position, state: LedgerState) -> Lack:
    found = head.in_words if head.identity == named.identity else "another table" if head.identity else "no table"
    is_known = state.is_whole and head.identity == named.identity and head.generation == state.generation
    return Lack(name, expected=named.in_words, found=found, first=head.marker + 1 if is_known else None)


def _left_out(name: str, named: Position, state: LedgerState) -> Lack:
    # Nothing says which offsets a chunk has read.
    is_known = state.is_whole and named.generation == state.generation and name not in state.left_out
    first = named.marker + 1 if is_known else None
    found = f"none after {named.in_words}: the pipeline file left it out"
    return Lack(name, expected="every batch that has landed", found=found, first=first)


def _rolled_back(name: str, named: Position, back_to: int | None, state: LedgerState) -> Lack:
    found = "the rows of an earlier time" if back_to is None else f"the rows of version {back_to}"
    first = None if back_to is None else state.first_after(back_to, name)
    return Lack(name, expected=f"the rows of version {named.version}", found=found, first=first)


def _is_stuck(pipeline: str, log: TableLog, named: Position, head: Position) -> bool:
    return not head.is_at(named) and not has_base(log, named, pipeline)
