"""What Lakemark needs from the log of one Delta table. Every kind of store (such as POSIX) is one class.

Delta's protocol demands one thing above all: if two writers create the commit of the same version, one of them wins and
the other learns that it has lost ("Delta Transaction Log Protocol: Delta Log Entries"). Everything else here reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    import pyarrow as pa


LOG = "_delta_log"  # the folder of a table's log
Create = Callable[[int, bytes, str | None], bool]  # makes a commit: see `LogStore.create`


class Commit(NamedTuple):
    """A commit of a log, by its file."""

    version: int
    stamp: str  # tells it from that of the same version in a table that was made again under the same name


class Tail(NamedTuple):
    """The end of a log, by one look."""

    checkpoint: int  # the version of the newest checkpoint, which is one file; -1: the log names none
    commits: list[Commit]  # from that version on, in order: its own commit may be gone; see `LogStore.commits`


@dataclass(frozen=True)
class CheckpointHint:
    """What `_last_checkpoint` says (Delta protocol, "Last Checkpoint File"). It may be stale."""

    version: int
    is_one_file: bool

    @classmethod
    def of(cls, content: bytes | None) -> Self | None:
        """None if there is none, or another writer is just writing it."""
        try:
            told = json.loads(content or b"")
            return cls(int(told["version"]), is_one_file=not (told.get("parts") or told.get("v2Checkpoint")))
        except (ValueError, KeyError, TypeError):
            return None


class LogStore(Protocol):
    """The folder `_delta_log` of one table.

    Every process sees a commit as soon as `create` has returned. Where a method says no error, it raises OSError if the
    store does not answer or refuses.
    """

    is_tied: ClassVar[bool]  # what is read after a look is what the look has told, commit by commit, or it is gone

    def exists(self) -> bool:
        """Whether there is a log, though it may be empty or damaged."""
        ...

    def read(self, version: int) -> bytes | None:
        """The actions of a commit, one JSON object per line; None if there is no such commit (any more)."""
        ...

    def read_all(self, versions: Sequence[int]) -> list[bytes | None]:
        """As `read`, of several commits, at the same time where that is quicker."""
        ...

    def tail(self) -> Tail | None:
        """The newest checkpoint and the commits since, or all commits, maybe none. None if the log names a checkpoint
        that is not there as one file."""
        ...

    def commits(self, since: int) -> list[Commit]:
        """The commits from a version on, in order. Where one is missing before a later one, its number is, too."""
        ...

    def has(self, version: int) -> bool:
        """Whether the commit is there. Cheaper than reading it."""
        ...

    def is_empty(self, version: int) -> bool | None:
        """Whether a commit is an empty file, as a file system may leave it that lost power; None if there is no such
        commit (any more)."""
        ...

    def stamp(self, version: int) -> str | None:
        """See `Commit`; None if there is no such commit (any more)."""
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
        """The content of `_last_checkpoint` (see `CheckpointHint`); None if there is none, or it is not readable."""
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


def commit_of(file: str) -> int | None:
    """The version of a commit, by the file's name; None: it is none."""
    named = re.fullmatch(r"(\d{20})\.json", file)
    return None if named is None else int(named[1])


def checkpoint_file(version: int) -> str:
    """The name of a checkpoint in one file (Delta protocol, "Checkpoints")."""
    return f"{version:020}.checkpoint.parquet"


def checkpoint_of(file: str) -> int | None:
    """The version of a checkpoint in one file, by the file's name; None: it is none."""
    named = re.fullmatch(r"(\d{20})\.checkpoint\.parquet", file)
    return None if named is None else int(named[1])


def succession(version: int, stamp: str | None) -> str:
    """What a commit says that must succeed a version of a table, and no other one of that number (`Succession.java`).

    Args:
        stamp: see `Commit`.
    """
    return f"{version}@{stamp}"
