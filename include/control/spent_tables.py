"""Removes tables that backfills made and that nobody will read again."""

from __future__ import annotations

from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file.tables import Tables
from include.protocol.ledger_state import LedgerState


def remove_spent_tables(tables: Tables, state: LedgerState) -> list[LakeUri]:
    """Removes new tables that were promoted (the target has their rows) or cancelled, and the records of replays that
    have ended. Returns their places."""
    ended = [record for record in state.backfills.values() if record.outcome is not None]
    new_tables = [tables.target_of(r.backfill) for r in ended if r.backfill.into == "new" and r.outcome != "applied"]
    places = [*new_tables, *(tables.records_of(record.backfill) for record in ended)]
    found = [uri for uri in places if uri is not None and files_at(uri).exists(uri)]
    for uri in found:
        files_at(uri).delete(uri)
    return found
