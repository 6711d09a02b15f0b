"""Which rows of the target are gone, as the ledger tells it. Markers survive, so they do not tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from include.protocol.ledger_events import BackfillEnded, BatchCommitted, Event, GenerationStarted

Span = tuple[int, int]  # after which version of the target, up to which


def versions_gone(events: Iterable[Event]) -> list[Span]:
    """The versions of the target whose rows it no longer holds: a RESTORE that is on record or a restore of ours took
    them away, or a promotion replaced them. Who goes back to what was taken away before brings it back."""
    past: list[tuple[int, list[Span]]] = [(-1, [])]  # since which version, what of the versions until then is gone
    for event in events:
        if not isinstance(event, GenerationStarted) or not (event.replaces_rows or event.restored_to is not None):
            continue
        until, back_to = event.target_version or 0, -1 if event.replaces_rows else event.restored_to or 0
        gone = next((gone for since, gone in reversed(past) if since <= back_to), [])
        past.append((until, [*((after, min(to, back_to)) for after, to in gone if after < back_to), (back_to, until)]))
    return past[-1][1]


def is_gone(version: int, gone: Iterable[Span]) -> bool:
    """Whether a version is among those whose rows the target no longer holds. Args: gone: see `versions_gone`."""
    return any(after < version <= until for after, until in gone)


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
