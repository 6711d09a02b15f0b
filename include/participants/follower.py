"""A follower: a system after the commit point. What a pipeline's batches commit is delivered to it, commit by commit.

It needs no fence. Whatever the point's log holds has landed, and a delivery takes effect only where the one before it
has left the system.
"""

from __future__ import annotations

from typing import Protocol

from include.protocol.guarantees import Level
from include.protocol.participants import Position
from include.protocol.settlement import LandedCommit


class Follower(Protocol):
    """One system that follows the point's log. It keeps its own position, in one transaction with what it gets."""

    @property
    def name(self) -> str:
        """In findings and reports; the same for ever."""

    @property
    def in_words(self) -> str:
        """For people."""

    @property
    def level(self) -> Level:
        """How often each commit takes effect here."""

    @property
    def because(self) -> str:
        """Why, for people."""

    def position(self) -> Position:
        """The last commit that was delivered, by its batch, its version in the point's table, and that table's id.
        `NOWHERE`: nothing was.

        Raises:
            RetryableError: the system does not answer.
        """

    def deliver(self, commit: LandedCommit, after: Position) -> None:
        """Takes a commit, and raises the position, in one transaction.

        Args:
            after: where the system must stand. If it stands elsewhere, another delivery was faster: nothing changes.

        Raises:
            RetryableError: the system does not answer.
        """
