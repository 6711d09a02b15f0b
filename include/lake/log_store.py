"""What Lakemark needs from the log of one Delta table. Every kind of store (such as POSIX) is one class.

Delta's protocol demands one thing above all: if two writers create the commit of the same version, one of them wins and
the other learns that it has lost ("Delta Transaction Log Protocol: Delta Log Entries"). Everything else here reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


LOG = "_delta_log"  # the folder of a table's log


class LogStore(Protocol):
    """The folder `_delta_log` of one table.

    Every process sees a commit as soon as `create` has returned. Where a method says no error, it raises OSError if the
    store does not answer or refuses.
    """

    def exists(self) -> bool:
        """Whether there is a log, though it may be empty or damaged."""
        ...

    def read(self, version: int) -> bytes | None:
        """The actions of a commit, one JSON object per line; None if there is no such commit (any more)."""
        ...

    def has(self, version: int) -> bool:
        """Whether the commit is there. Cheaper than reading it."""
        ...

    def size(self, version: int) -> int | None:
        """The size of a commit in bytes; None if there is no such commit (any more)."""
        ...

    def stamp(self, version: int) -> str | None:
        """Tells a commit from that of the same version in a table that was made again under the same name; None if
        there is no such commit (any more)."""
        ...

    def create(self, version: int, content: bytes, succeeds: str | None = None) -> bool:
        """Creates a commit, in full or not at all.

        Args:
            succeeds: the stamp of the version before; None: any.

        Returns:
            False if the version is taken. Only the store itself decides that, in one atomic step. If log clean-up has
            removed a version's file, the version counts as free: the caller must find out whether anybody reads the
            commit. False, too, if the version before is not there, or has another stamp: the table was lost.

        Raises:
            OSError: the commit may be there or not.
        """
        ...

    def last_checkpoint(self) -> bytes | None:
        """The content of `_last_checkpoint`, a hint that may be stale; None if there is none, or it is not readable."""
        ...

    def has_checkpoint(self, version: int) -> bool:
        """Whether the checkpoint of a version is there as one file."""
        ...

    def read_checkpoint(self, version: int, columns: Sequence[str]) -> pa.Table:
        """Reads columns of a checkpoint (such as `metaData.id`).

        Raises:
            OSError: it is not there, or not readable.
        """
        ...

    def changed_at(self) -> int | None:
        """When the log last changed, in ns since 1970; None if there is none. Far cheaper than reading it.

        The clock may be coarse: two changes within one tick look like one.
        """
        ...

    def entries(self) -> int:
        """How many files the log has.

        Raises:
            OSError: there is no log.
        """
        ...


def commit_file(version: int) -> str:
    """The name of a commit's file (Delta protocol, "Delta Log Entries")."""
    return f"{version:020}.json"


def checkpoint_file(version: int) -> str:
    """The name of a checkpoint in one file (Delta protocol, "Checkpoints")."""
    return f"{version:020}.checkpoint.parquet"


def checkpoint_of(file: str) -> int | None:
    """The version of a checkpoint in one file, by the file's name; None: it is none."""
    named = re.fullmatch(r"(\d{20})\.checkpoint\.parquet", file)
    return None if named is None else int(named[1])
