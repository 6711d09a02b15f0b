"""Makes a table what it was, or what another table is, in one commit: its files are named again, and copied by none.

It is what Delta's own RESTORE does. This one can carry markers, so that it lands once, and needs no JVM.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from include.lake.merge.actions import Actions
from include.lake.merge.fitness import verify_fit, verify_may_remove
from include.lake.merge.replacing import removed
from include.lake.merge.snapshot import FileKey, Snapshot
from include.lake.operations import BROUGHT_BACK
from include.protocol.json_data import JsonObject

_OF_IDENTITY = ("id", "createdTime", "name", "description")  # a table keeps these


@dataclass(frozen=True)
class Restoration:
    """A table's files as they were.

    Args:
        files: the `add` actions of the state to go back to. All that they name is there. metadata: its `metaData`;
            None: the table's stays as it is.
    """

    files: Mapping[FileKey, JsonObject] = field(default_factory=dict)
    metadata: JsonObject | None = None

    @classmethod
    def to(cls, past: Snapshot) -> Restoration:
        """Back to an earlier version of the same table."""
        return cls(past.files, past.metadata)

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table, only_appends=True)
        now = time.time_ns() // 1_000_000
        gone = [table.files[key] for key in table.files.keys() - self.files.keys()]
        if gone:
            verify_may_remove(table)
        back = [self.files[key] for key in self.files.keys() - table.files.keys()]
        actions: list[JsonObject] = []
        if (metadata := self._metadata(table)) != table.metadata:
            actions.append({"metaData": metadata})
        actions += [{"remove": removed(file, now)} for file in sorted(gone, key=_path)]
        actions += [{"add": {**file, "dataChange": True}} for file in sorted(back, key=_path)]
        metrics = {
            "numRestoredFiles": len(back),
            "restoredFilesSize": _size(back),
            "numRemovedFiles": len(gone),
            "removedFilesSize": _size(gone),
            "numOfFilesAfterRestore": len(self.files),
            "tableSizeAfterRestore": _size(self.files.values()),
        }
        return Actions(actions, BROUGHT_BACK, {}, metrics)

    def _metadata(self, table: Snapshot) -> JsonObject:
        if self.metadata is None:
            return table.metadata
        kept = {name: table.metadata[name] for name in _OF_IDENTITY if name in table.metadata}
        return {**self.metadata, **kept}


def _path(file: JsonObject) -> str:
    return str(file["path"])


def _size(files: Collection[JsonObject]) -> int:
    return sum(file["size"] for file in files)
