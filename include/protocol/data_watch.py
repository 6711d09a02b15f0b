"""When enough data waits to start a run (the schedule `on_data`). Pure: time is an argument.

Starting once too often costs one run that finds nothing, starting too rarely would leave data lying: so a start that
nothing came of is said again, ever more rarely while nothing changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

PATIENCE_SECONDS = (120.0, 900.0)  # without a commit after a start: until it is said again, first and at most


@dataclass(frozen=True)
class Waiting:
    """What a look at Kafka and the ledger found."""

    records: int  # offsets that are not committed, those of a planned batch included
    progress: Hashable  # changes with every commit
    life: Hashable  # changes with whatever the ledger hears
    urgent: bool = False  # where a topic starts is not on record yet, or a person must be told


@dataclass(frozen=True)
class StartRun:
    """Start a run now."""

    records: int
    waited_seconds: float


@dataclass
class DataWatch:
    """Decides from one look after the other; remembers when data was first seen, and the last start."""

    records: int
    seconds: float
    _since: float | None = None  # when the data that waits was first seen
    _started: Waiting | None = None  # the look that the last start was decided on
    _alive_at: float = 0.0  # when anything last happened after that
    _life: Hashable = None
    _patience: float = PATIENCE_SECONDS[0]

    def look(self, now: float, waiting: Waiting) -> StartRun | None:
        """Args: now: a monotonic clock, in seconds."""
        if self._started is not None and waiting.progress != self._started.progress:
            self._started, self._since, self._patience = None, None, PATIENCE_SECONDS[0]
        if waiting.records == 0 and not waiting.urgent:
            self._started = self._since = None
            return None
        self._since = now if self._since is None else self._since
        if waiting.life != self._life:
            self._life, self._alive_at = waiting.life, now
        waited = now - self._since
        if not (waiting.urgent or waiting.records >= self.records or waited >= self.seconds):
            return None
        if self._started is not None:
            if now - self._alive_at < self._patience:
                return None
            self._patience = min(2 * self._patience, PATIENCE_SECONDS[1])
        self._started, self._alive_at = waiting, now
        return StartRun(waiting.records, waited)
