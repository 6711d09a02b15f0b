"""Brings a table's rows back to where a restore goes: in the same commit that fences the generation before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from include.lake.delta_tables import OpenedTable, uri_of
from include.lake.log_store import succession
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.past import Frozen
from include.lake.merge.restoring import Restoration
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.uri import LakeUri
from include.participants.versions import bring_files_back, copied_version, unfit, whole_version
from include.protocol.participants import Position, Where


@dataclass(frozen=True)
class BringBack:
    """Commits markers together with the rows of an earlier version: see `Fence.commit_to_target`.

    Args:
        past: the version; None: the table had no rows. where: names the table in an error. spare: a folder that has
            copies of files that may be gone.
    """

    past: Snapshot | None
    where: Where
    spare: LakeUri | None = None

    @classmethod
    def to(
        cls, uri: LakeUri, position: Position, where: Where, frozen: Frozen, spare: LakeUri | None = None
    ) -> BringBack:
        """Finds the version, with all of its files. Args, Raises: see `whole_version`."""
        return cls(whole_version(uri, position, where, frozen=frozen, spare=spare), where, spare)

    @classmethod
    def from_copy(cls, uri: LakeUri, position: Position, where: Where, copy: LakeUri) -> BringBack:
        """Finds rows that never were in this table. Args: copy: the frozen table that has them, and their files.

        Raises:
            TerminalError: they are gone.
        """
        return cls(None if position.version is None else copied_version(uri, where, copy), where, copy)

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
            land(now, change, first, metadata, succeeds=succeeds, beside=others, decided=self._bring_files)
        except (OvertakenError, MarkerIsThereError):
            return False
        except UnfitError as error:
            raise unfit(self.where, uri_of(table), error) from error
        return True

    def _bring_files(self) -> None:
        if self.past is not None:
            bring_files_back(self.past, self.where, self.spare)
