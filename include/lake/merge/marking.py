"""Marks in a table that records are appended to that a batch has nothing for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from include.lake.delta_tables import CHECKPOINT_EVERY, commit_markers, open_table
from include.lake.merge.actions import Actions
from include.lake.merge.fitness import verify_fit
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.table_log import TableLog

_OPERATION = "LAKEMARK MARKER"


@dataclass(frozen=True)
class Nothing:
    """No rows: a commit with a marker alone."""

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table, only_appends=True)
        return Actions([], _OPERATION, {}, {}, is_blind=True)


def commit_marker(log: TableLog, marker: Marker, metadata: str, table: Snapshot | None = None) -> bool:
    """Commits a marker and no rows as the version after this log's. False if another writer was faster.

    Args:
        table: as the lane has read it, which keeps it quick (`keep_quick`); None: it is read now, and gets its
            checkpoints here, for no other writer may come by for long.

    Raises:
        TerminalError, RetryableError: see `commit_markers`.
    """
    try:
        land(table or Snapshot.of(log.uri), Nothing(), marker, metadata, succeeds=log.succession)
    except (OvertakenError, MarkerIsThereError):
        return False
    except UnfitError:
        numbers = {marker.app_id: marker.number}
        if not commit_markers(log.table, numbers, metadata, operation=_OPERATION, stamp=log.stamp):
            return False
    if table is None and (log.version + 1) % CHECKPOINT_EVERY == 0:
        with suppress(DeltaError, OSError):  # a later commit makes one
            after = open_table(log.uri)
            assert after is not None, "it was there a moment ago"
            after.create_checkpoint()
    return True
