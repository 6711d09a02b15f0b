"""What Lakemark asks of the log of one Delta table. A kind of store (POSIX, say) is one class that does this.

Delta's protocol asks one thing of a store above all: of two writers who create the commit of one version, one wins, and
the other is told ("Delta Transaction Log Protocol: Delta Log Entries"). Everything else here is reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa


class LogStore(Protocol):
    """The folder `_delta_log` of one table."""

    def exists(self) -> bool:
        """Whether there is a log, though it may be empty or damaged."""
        ...

    def read(self, version: int) -> bytes | None:
        """The actions of a commit, one JSON object a line; None if there is no such commit (any more)."""
        ...

    def has(self, version: int) -> bool:
        """Whether the commit is there; cheaper than to read it."""
        ...

    def size(self, version: int) -> int | None:
        """Bytes of a commit; None if there is no such commit (any more)."""
        ...

    def create(self, version: int, content: bytes) -> bool:
        """Creates a commit: in full or not at all, and lasting once this returns. False if the version is taken."""
        ...

    def last_checkpoint(self) -> bytes | None:
        """What `_last_checkpoint` holds: a hint that may be stale; None if there is none."""
        ...

    def has_checkpoint(self, version: int) -> bool:
        """Whether the checkpoint of a version is there, as one file."""
        ...

    def read_checkpoint(self, version: int, columns: Sequence[str]) -> pa.Table:
        """Columns of a checkpoint (`metaData.id`).

        Raises:
            OSError: it is not there, or not readable.
        """
        ...

    def changed_at(self) -> int | None:
        """When the log last changed, in ns since 1970; None if there is none. Far cheaper than to read it.

        The clock may be coarse: within one tick, two changes look like one.
        """
        ...

    def entries(self) -> int:
        """How many files the log has."""
        ...


def commit_file(version: int) -> str:
    """What the file of a commit is called (Delta protocol, "Delta Log Entries")."""
    return f"{version:020}.json"


def checkpoint_file(version: int) -> str:
    """What a checkpoint in one file is called (Delta protocol, "Checkpoints")."""
    return f"{version:020}.checkpoint.parquet"
