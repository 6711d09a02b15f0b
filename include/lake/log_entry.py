"""One commit of a table's log, and what it says about a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import GenerationStarted
from include.protocol.settlement import LandedCommit

# These operations change no row that a reader sees.
_CHANGE_NO_ROW = (
    "ADD COLUMNS",
    "ADD CONSTRAINT",
    "ADD FEATURE",
    "ANALYZE",
    "CHANGE COLUMN",
    "CLUSTER BY",
    "COMPUTE STATS",
    "CREATE TABLE",
    "DOMAIN METADATA CLEANUP",
    "DROP CONSTRAINT",
    "DROP FEATURE",
    "Deletion Vector Tombstones",  # of DROP FEATURE
    "OPTIMIZE",
    "REORG",
    "ROW TRACKING",  # its BACKFILL and its UNBACKFILL
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "UPGRADE PROTOCOL",
    "VACUUM",
)


@dataclass(frozen=True)
class LogEntry:
    """One commit of a table's log."""

    version: int
    at: str  # ISO 8601, UTC
    operation: str
    engine: str
    own: bool  # it carries Lakemark's metadata
    landed: LandedCommit | None  # if it is a batch's commit
    begun: GenerationStarted | None  # if it is a fence: the generation that it starts

    @property
    def is_foreign(self) -> bool:
        """Whether another writer changed rows. Lakemark's guarantees do not cover these."""
        return not self.own and not self.operation.startswith(_CHANGE_NO_ROW)


def moment(entry: JsonObject) -> str:
    """When a commit was made: ISO 8601, UTC. Args: entry: its `commitInfo`."""
    return datetime.fromtimestamp(entry["timestamp"] / 1000, UTC).isoformat()


def fence_before(entries: Iterable[LogEntry], generation: int) -> int | None:
    """The version that the fence made with which a generation began; None if there is no such fence. Args: entries: of
    a table's log, as it tells them of the pipeline."""
    return next((e.version for e in entries if e.begun is not None and e.begun.generation == generation), None)
