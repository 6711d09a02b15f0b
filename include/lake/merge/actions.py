"""What a commit says, and the contract of what decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from include.lake.merge.snapshot import Snapshot
from include.protocol.json_data import JsonObject


@dataclass(frozen=True)
class Actions:
    """What a commit says of files, and of itself.

    Args:
        operation, parameters, metrics: by the names that Spark uses. is_blind: it was decided without any row that
            the table has.
    """

    actions: list[JsonObject]
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, int]
    is_blind: bool = False


class Change(Protocol):
    """What is to be done to a table: an `Upsert`, a `Patch`, an `Append` or a `Compaction`."""

    def over(self, table: Snapshot) -> Actions:
        """Decides it over a version of the table, and writes its files. They belong to no version until a commit names
        them.

        Raises:
            UnfitError: Spark has to do it. OSError: the store refuses. TableDamaged: a file is not there.
        """
