"""Transactions that a sink has prepared for a commit of the lake, and how each of them ends. Pure.

The commit says it: a transaction is committed if the lake's log holds the very commit that it was prepared for, and
rolled back if not. Rolling back loses nothing: what the log holds can be delivered from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_BYTES_MAX = 64  # of each half of a name (XA, "Transaction identifiers")
_FOLLOWS = "follows-"
_NAME = re.compile(r"([0-9]{1,19}):([0-9a-zA-Z-]{1,40})")


@dataclass(frozen=True)
class Prepared:
    """What a transaction was prepared for: one commit of the target, which may have been made or not.

    Args:
        version: that the commit makes. commit: its `txnId` (Delta protocol, "Commit Provenance Information"), which no
            other commit has.
    """

    version: int
    commit: str

    def name(self) -> str:
        """As a sink keeps it: at most 64 bytes."""
        name = f"{self.version}:{self.commit}"
        if len(name) > _BYTES_MAX or _NAME.fullmatch(name) is None:
            raise ValueError(f"no name of a prepared transaction: {name}")
        return name

    @classmethod
    def named(cls, name: str) -> Self | None:
        """None: it is no such name."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])

    @classmethod
    def that_follows(cls, version: int, unique: str) -> Self:
        """The one of a delivery from the log, whose commit has landed before. Args: unique: no other one has it."""
        return cls(version, f"{_FOLLOWS}{unique}")

    @property
    def follows(self) -> bool:
        """Whether it is of a delivery from the log. Then it may as well be rolled back, and is delivered again."""
        return self.commit.startswith(_FOLLOWS)

    def has_landed(self, commit: str | None) -> bool:
        """Whether its commit was made. Args: commit: the `txnId` of that version in the log; None: there is none, or
        log clean-up has removed it."""
        return self.commit == commit
