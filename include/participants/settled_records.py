"""Where to read the quarantine as landed batches have left it, also while a repair is due."""

from __future__ import annotations

from collections.abc import Sequence

from include.lake.data_files import lost_file
from include.lake.delta_tables import OpenedTable, open_table
from include.lake.table_log import TableLog
from include.participants.records import QUARANTINE
from include.protocol.ledger_state import LedgerState

# A version of the table, and a SQL condition on the rows that count there.
Part = tuple[OpenedTable, str]


def settled_records(log: TableLog, pipeline: str, state: LedgerState) -> Sequence[Part]:
    """The parts of the quarantine that landed batches, and chunks of backfills, have left there.

    Until a repair, the head shows what an attempt has set aside that did not win. The rows of live batches are read
    where the last landed batch says that the table stands. Chunks land beside them, at the head.

    Args:
        log: of the quarantine. state: of the ledger, as read before or after it.
    """
    named = state.positions.get(QUARANTINE)
    if state.pending is None and named is not None and named.version is not None and named.identity == log.table_id:
        is_due = not log.position(pipeline, state.generation, state.form).is_at(named)
        if is_due and named.version < log.version and lost_file(log.uri, named.version) is None:
            settled = open_table(log.uri, named.version)
            assert settled is not None, "its files were there a moment ago"
            return (settled, "generation > 0"), (log.table, "generation < 0")
    return ((log.table, "true"),)
