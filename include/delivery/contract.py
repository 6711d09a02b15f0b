"""What a sink is to Lakemark: a system that takes one delivery after the other, each with its progress.

Whoever writes a sink of a new kind implements `WriteAheadSink`. The lake's commit is the log: whatever is delivered has
landed, and can be delivered again from there. So a sink needs one thing only: rows and progress take effect together,
and only where the delivery before them has left it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from include.delivery.net_changes import NetChanges
from include.protocol.progress import Progress


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
