"""Which rows of the target are gone, as the ledger tells it. Markers survive, so they do not tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from include.protocol.ledger_events import BackfillEnded, BatchCommitted, Event, GenerationStarted


def versions_gone(events: Sequence[Event]) -> list[tuple[int, int]]:
    """What a RESTORE that is on record took away, and what a promotion replaced: after which version of the target, up
    to which."""
    begun = [event for event in events if isinstance(event, GenerationStarted)]
    restored = [(g.restored_to, g.target_version or 0) for g in begun if g.restored_to is not None]
    return [*restored, *((-1, g.target_version or 0) for g in begun if g.is_promotion)]


def backfills_elsewhere(events: Iterable[Event]) -> list[int]:
    """The backfills that ended when the target was another table."""
    ended: dict[int, str | None] = {}
    table_id: str | None = None
    for event in events:
        match event:
            case GenerationStarted() | BatchCommitted():
                table_id = event.table_id or table_id
            case BackfillEnded():
                ended[event.number] = table_id
    return [number for number, of_table in ended.items() if of_table not in (None, table_id)]
