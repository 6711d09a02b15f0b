"""Finds in a table's log which columns were added when it had rows: such rows show nothing in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from include.lake.delta_tables import open_table
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.pipeline_file import LINEAGE
from include.protocol.errors import LakemarkError

_ADDED = "ADD COLUMNS"


def late_columns(log: TableLog, entries: Sequence[LogEntry], declared: Iterable[str]) -> dict[str, str]:
    """SQL conditions on a row `t`, by the names of the added columns in small letters: the row may be from before the
    column.

    Args:
        entries: all commits that the log still has, the oldest first. declared: the pipeline file's columns; no batch
            may have added the newest yet.
    """
    found = dict.fromkeys({name.lower() for name in declared} - _columns(log, log.version), "true")
    for entry in entries:
        if not entry.operation.startswith(_ADDED) or entry.version == 0:
            continue
        after = [e.landed.metadata.batch.key for e in entries if e.landed and e.version > entry.version]
        keys = ", ".join(f"({key.generation}, {key.batch_id})" for key in sorted(set(after)))
        since = f"(t.{LINEAGE}.generation, t.{LINEAGE}.batch_id) IN ({keys})" if keys else "false"
        for name in _columns(log, entry.version) - _columns(log, entry.version - 1):
            found[name] = f"coalesce(NOT ({since}), true)"
    return found


def made_at(log: TableLog, entries: Sequence[LogEntry]) -> datetime | None:
    """When a table was made, if its log no longer goes back to that; None: the log has all of its commits."""
    if entries and entries[0].version == 0:
        return None
    made = log.table.metadata().created_time
    return datetime.fromtimestamp((made or 0) / 1000, UTC)


def _columns(log: TableLog, version: int) -> set[str]:
    try:
        table = open_table(log.uri, version)
    except LakemarkError:  # log clean-up has removed what led to that version
        return set()
    return {field.name.lower() for field in table.schema().fields} if table is not None else set()
