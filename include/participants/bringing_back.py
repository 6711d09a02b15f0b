"""Brings a table's rows back to where a restore goes: in the same commit that fences the generation before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from include.lake.damage import on_one_line
from include.lake.delta_tables import OpenedTable, uri_of
from include.lake.log_store import succession
from include.lake.merge.frozen import names_of
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.past import Frozen, version_at
from include.lake.merge.restoring import Restoration
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.participants import Position, Where


@dataclass(frozen=True)
class BringBack:
    """Commits markers together with the rows of an earlier version: see `Fence.commit_to_target`.

    Args:
        past: the version; None: the table had no rows. where: names the table in an error.
    """

    past: Snapshot | None
    where: Where

    @classmethod
    def to(cls, log: TableLog, position: Position, where: Where, frozen: Frozen) -> BringBack:
        """Finds the version in the table's log, and looks whether its files are there.

        Args:
            log: of the table as it is now. frozen: where its versions are frozen, if they are.

        Raises:
            TerminalError: it is gone, or the table is another one now.
        """
        if position.version is None:
            return cls(None, where)
        if position.identity not in (None, log.table_id):
            raise _gone(where, log.uri, f"table id {position.identity}", f"table id {log.table_id}")
        try:
            past = version_at(log.uri, position.version, frozen)
        except UnfitError as error:
            raise _unfit(where, log.uri, error) from error
        if past is None:
            expected = f"version {position.version} in its log"
            raise _gone(where, log.uri, expected, "log clean-up has removed it")
        found = cls(past, where)
        found.verify_whole()
        return found

    def verify_whole(self) -> None:
        """Checks that all files are there. Raises TerminalError: one is not."""
        if self.past is None:
            return
        there = {file.name for file in files_at(self.past.uri).list(self.past.uri)}
        if (lost := next((name for name in sorted(names_of(self.past)) if name not in there), None)) is not None:
            expected = f"every file of version {self.past.version}"
            raise _gone(self.where, self.past.uri, expected, f"no {lost}")

    def __call__(self, table: OpenedTable, markers: Mapping[str, int], metadata: str) -> bool:
        """Makes the commit. False if another writer was faster.

        Raises:
            TerminalError: a file has gone meanwhile, or the table has what only Spark can write.
        """
        first, *others = (Marker(app_id, number) for app_id, number in markers.items())
        change = Restoration() if self.past is None else Restoration.to(self.past)
        try:
            now = Snapshot.of(uri_of(table))
            if now.version != table.version():
                return False
            succeeds = succession(now.version, now.stamp)
            land(now, change, first, metadata, succeeds=succeeds, beside=others, decided=self.verify_whole)
        except (OvertakenError, MarkerIsThereError):
            return False
        except UnfitError as error:
            raise _unfit(self.where, uri_of(table), error) from error
        return True


def _gone(where: Where, uri: LakeUri, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="a table cannot go back: what it was is no longer there",
        where=f"{where}, {uri}",
        expected=expected,
        found=found,
        action="nothing was changed: choose another checkpoint or savepoint (`lakemark checkpoint list "
        f"{where.pipeline}` says which can be restored), or bring the files back from a copy",
    )


def _unfit(where: Where, uri: LakeUri, error: UnfitError) -> TerminalError:
    return TerminalError(
        what="a table cannot go back by Lakemark: it has what only Spark can write",
        where=f"{where}, {uri}",
        expected="a table as Lakemark makes it, and its log with a checkpoint in one file",
        found=on_one_line(error),
        action="drop what it has (ALTER TABLE ... DROP FEATURE, or UNSET TBLPROPERTIES), then run the same command "
        "again; nothing was changed",
    )
