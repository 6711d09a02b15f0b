"""Keeps a table quick after the lane's commits: checkpoints of its log, and few files. Spark's own writers do both."""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from include.lake.damage import on_one_line
from include.lake.delta_tables import CHECKPOINT_EVERY, open_table
from include.lake.merge.compaction import BYTES_MAX, Compaction
from include.lake.merge.landing import OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.protocol.errors import TableDamaged

_LATER = (UnfitError, OvertakenError, TableDamaged, DeltaError, OSError)


def keep_quick(table: Snapshot, order_by: tuple[str, ...], bytes_max: int = BYTES_MAX) -> list[str]:
    """Does what is due. What does not succeed now is done after a later commit: nothing depends on it.

    Args:
        table: any version; it is brought up to a newer one. order_by: columns by which rows are laid out.
            bytes_max: see `Compaction`.

    Returns:
        What went wrong though nobody expects that. What has landed before stays landed.
    """

    def compacted() -> None:
        land(table, Compaction(order_by, bytes_max), None, None)

    def checkpointed() -> None:
        if table.version - (table.checkpoint or 0) >= CHECKPOINT_EVERY:
            opened = open_table(table.uri, table.version)
            assert opened is not None, "it was there a moment ago"
            opened.create_checkpoint()
            table.checkpoint = table.version

    wrong = []
    for work in (compacted, checkpointed):  # both in any case: without checkpoints the lane could soon not go on
        try:
            work()
        except _LATER:
            pass
        except Exception as error:
            wrong.append(on_one_line(error))
    return wrong
