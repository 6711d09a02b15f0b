"""Where the tables before the point must stand when a generation begins. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from include.protocol.batch import BatchKey
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import last_to_name
from include.protocol.participants import NEVER, NOWHERE, Position, Positions, is_behind

Unnamed = Callable[[BatchKey], bool]


def before_what_never_landed(
    head: Position,
    named: Position | None,
    live: Iterable[tuple[int, BatchKey]],
    unnamed: Unnamed,
    restored: Callable[[int | None], tuple[int, int | None] | None],
) -> Position:
    """Where a table must stand that goes on as it is, because nobody says where it stood, or because it is another one
    than that, or was rolled back, or left out for a time. It is the head, or what the table held before batches wrote
    it that may never reach the point.

    Args:
        named: as for `positions_to_begin_with`. live: the commits of live batches since the table was made, oldest
            first, with their versions. unnamed: says of a batch that it never landed, or names all tables which it
            wrote, so not this one. restored: see `TableLog.restored`, to the newest version.
    """
    rollback = None
    was_left_out = named is not None and named.left_out
    if named is not None:
        named = replace(named, left_out=False)
    if named is not None and named.identity not in (None, head.identity):  # no landed batch names this table
        before, written = replace(NOWHERE, identity=head.identity), [version for version, _ in live]
    elif named is None and unnamed(head.batch):
        never_landed = [(version, key) for version, key in live if unnamed(key)]
        first = never_landed[0][1].batch_id if never_landed else head.marker
        before = replace(head, marker=first - 1, revision=0, digest=None)
        written = [version for version, _ in never_landed]
    elif named is not None and (rollback := restored(named.version)) is not None:
        before, written = named, [version for version, _ in live]
    elif named is not None and was_left_out:
        before = replace(named, identity=head.identity)
        written = [version for version, _ in live if version > named.since_version]
    else:
        return head
    if rollback is None and written:
        rollback = restored(written[0] - 1)
    if rollback is not None:  # what was written before it is not in the table any more
        written = [version for version in written if version > rollback[0]]
    return replace(before, version=written[0] - 1) if written else head


def unnamed_by(state: LedgerState) -> Unnamed:
    """See `before_what_never_landed`. A ledger that is an old copy may not know that the next batch was planned."""
    return _unnamed(state.generation, state.committed_through, last_to_name(state) is not None)


def unnamed_after(generation: int, marker: int | None, named: Positions) -> Unnamed:
    """The same, if the ledger was lost. The batch after the point's marker may have been planned, or not.

    Args:
        named: by the batch of that marker; empty: an older Lakemark wrote it.
    """
    return _unnamed(generation, NEVER if marker is None else marker, bool(named))


def _unnamed(generation: int, landed: int, names_tables: bool) -> Unnamed:
    """Args: landed: the last batch that has landed. names_tables: the generation's batches name what they write."""
    return lambda batch: batch.generation == generation and (names_tables or batch.batch_id > landed)


def positions_to_begin_with(
    named: Positions, heads: Positions, as_they_are: Collection[str] = ()
) -> dict[str, Position]:
    """Where a new generation's tables must stand: as the newest landed batch has left them. A table that is behind
    that, or that no batch has named, begins as it is: it is filled again, or a person has accepted it.

    Args:
        heads: see `before_what_never_landed`. as_they_are: tables that begin so, too, though they are not behind.
    """
    return {
        **named,
        **{
            name: head
            for name, head in heads.items()
            if name not in named or name in as_they_are or is_behind(head, named[name])
        },
    }
