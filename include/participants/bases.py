"""The version that a table before the point is made anew from: which one it is, and whether its files are still there.

VACUUM of Lakemark's own maintenance waits while somebody needs it. One by hand does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from include.lake.data_files import lost_file
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.protocol.batch import Batch, BatchKey
from include.protocol.errors import TableDamaged, TerminalError
from include.protocol.participants import NOWHERE, Position, Where
from include.protocol.replace_base import base_of


@dataclass(frozen=True)
class Base:
    """Where a Replace starts from."""

    version: int | None  # None: there was no table
    undone: tuple[Batch, ...]  # the live batches that came after it, oldest first


def base_in(log: TableLog, chain: Position | None, pipeline: str, batch: BatchKey, where: Where) -> Base:
    """Finds the base of a Replace, as its table's log tells it.

    Args:
        chain: as for `decide`. batch: the one that is about to land. where: names the table in an error.

    Raises:
        TerminalError: the log no longer reaches back to the chain; or another writer has changed rows since, and that
            would be undone. TableDamaged: files of the base are gone.
    """
    after = (chain or NOWHERE).since_version
    live = log.live_commits(pipeline, after) if chain is None or log.reaches_back_to(after) else []
    version = base_of(chain, [(at, other.key) for at, other in live], batch, where)
    if version is not None and (file := lost_file(log.uri, version)) is not None:
        raise TableDamaged(
            what="a table cannot be made anew without rows of a batch that never landed: files of an earlier version "
            "are gone",
            where=f"{where}, version {version} of {log.uri}",
            expected="every file of that version",
            found=f"no {file}",
            action="VACUUM or log clean-up by hand removed it: bring it back from a copy; or move the folder "
            f"{log.uri} away, and `lakemark reset {pipeline} --from earliest --reason ...` fills a new one from Kafka; "
            "or, to go on with the table as it is, with those rows, "
            f"`lakemark reset {pipeline} --accept {where.table} --reason ...`",
        )
    entries = [*log.newest_entries(pipeline, log.version - (-1 if version is None else version))]
    if (foreign := next(filter(_is_lost_by_a_replace, entries), None)) is not None:
        raise TerminalError(
            what="another writer has changed a table that holds rows of a batch that never landed; to make it anew "
            "would undo that change",
            where=f"{where}, version {foreign.version}, {foreign.operation} by {foreign.engine}",
            expected="nobody else's changes since those rows came",
            found=foreign.operation,
            action=f"to keep the change, and those rows, `lakemark reset {pipeline} --accept {where.table} --reason "
            f"...`; or move the folder {log.uri} away, and `lakemark reset {pipeline} --from earliest --reason ...` "
            "fills a new table from Kafka",
        )
    return Base(version, tuple(other for at, other in live if version is None or at > version))


def _is_lost_by_a_replace(entry: LogEntry) -> bool:
    """Whether a commit is somebody's change of rows. A RESTORE has been judged where the position was looked at."""
    return entry.is_foreign and entry.operation != "RESTORE"


def has_base(log: TableLog, chain: Position, pipeline: str) -> bool:
    """Whether a table can be made anew from a position that it has left."""
    try:
        base_in(log, chain, pipeline, batch=chain.batch, where=Where(pipeline, ""))
    except TerminalError:
        return False
    return True
