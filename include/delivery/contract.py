"""What a sink is to Lakemark: a system that takes one delivery after the other, each with its progress.

Whoever writes a sink of a new kind implements `WriteAheadSink`. The lake's commit is the log: whatever is delivered has
landed, and can be delivered again from there. So a sink needs one thing only: rows and progress take effect together,
and only where the delivery before them has left it. A sink that can prepare a transaction, and end it later, is a
`TwoPhaseSink`, too: it moves together with the lake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from include.delivery.net_changes import NetChanges
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared


@dataclass(frozen=True)
class Delivery:
    """What one transaction of a sink takes.

    Args:
        after: where the sink must stand; None: it has got nothing yet. now: where it stands then. changes: by key; or,
            with `is_snapshot`, all rows: whatever else the sink has goes. None: no row changes.
    """

    after: Progress | None
    now: Progress
    changes: NetChanges | None = field(default=None, repr=False)
    is_snapshot: bool = False


class WriteAheadSink(Protocol):
    """A sink that has been taken: every other delivery to it that is still under way has lost it."""

    def progress(self) -> Progress | None:
        """Where it stands; None: it has got nothing yet.

        Raises:
            RetryableError: it does not answer. TerminalError: it lacks what Lakemark needs there.
        """

    def deliver(self, delivery: Delivery) -> int:
        """Takes a delivery: rows and progress in one transaction. Returns how many rows it has changed.

        Raises:
            RetryableError: nothing took effect. OutcomeUnknownError: ask for the progress again. TerminalError: it
                refuses the rows.
        """

    def close(self) -> None:
        """Lets it go."""


@dataclass(frozen=True)
class Pending:
    """A transaction that a sink has prepared, and that nobody has ended.

    Args:
        prepared: what it is for. transaction: what the system's administrator calls it. since: ISO 8601, UTC; None: the
            system does not tell.
    """

    prepared: Prepared
    transaction: str
    since: str | None = None


@runtime_checkable
class TwoPhaseSink(WriteAheadSink, Protocol):
    """A sink whose transactions can be prepared: then they outlive the session and the server, and wait for their end.
    What a transaction has written is locked meanwhile."""

    def verify_prepares(self) -> None:
        """Checks that the system keeps a prepared transaction until somebody ends it.

        Raises:
            RetryableError: it has no room for one now. TerminalError: it does not.
        """

    def prepare(self, delivery: Delivery, prepared: Prepared) -> int:
        """Prepares a delivery: nothing of it takes effect yet. Returns how many rows it will have changed.

        Raises:
            RetryableError: it may be prepared or not: `pending` says it. TerminalError: the sink refuses the rows.
        """

    def end(self, prepared: Prepared, commits: bool) -> bool:
        """Commits a prepared transaction, or rolls it back. False if there is none: somebody has ended it.

        Raises:
            RetryableError: it may have ended or not.
        """

    def pending(self) -> list[Pending]:
        """The transactions that deliveries to this sink have prepared, by whichever session."""
