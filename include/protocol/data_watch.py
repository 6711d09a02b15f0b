"""Decides when enough data waits to start a run (the schedule `on_data`). Pure: time is an argument.

One start too many costs one run that finds nothing. One start too few would leave data waiting. So a start that had no
effect is repeated, less and less often while nothing changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

PATIENCE_SECONDS = (120.0, 900.0)  # before a start without a commit is repeated: the first time, and at most
# The same in a group, where a pipeline that is paused or busy elsewhere has no turn, and a run costs little.
GROUP_PATIENCE_SECONDS = (30.0, 120.0)


@dataclass(frozen=True)
class Waiting:
    """What one look at Kafka and the ledger found."""

    records: int  # offsets that are not committed, including those of a planned batch
    progress: Hashable  # changes with every commit
    life: Hashable  # changes with every event in the ledger
    urgent: bool = False  # a topic's start is not recorded yet, a repair is due, or a person must be told something
    unmerged: int = 0  # offsets that have landed, and are merged once more have (`merge_every`), or no more come
    problem: str | None = None  # that only a person can fix, as far as is known


@dataclass(frozen=True)
class StartRun:
    """Start a run now."""

    records: int
    waited_seconds: float
    problem: str | None = None  # which that run will meet, unless a person has fixed it


@dataclass
class DataWatch:
    """Decides at each look, and remembers when data was first seen and what the last start was for."""

    records: int
    seconds: float
    patience: tuple[float, float] = PATIENCE_SECONDS
    _since: float | None = None  # when the waiting data was first seen
    _started: Waiting | None = None  # what the look found that led to the last start
    _alive_at: float = 0.0  # when something last happened after that
    _life: Hashable = None
    _repeats: int = 0  # of the last start, while nothing comes of it

    def look(self, now: float, waiting: Waiting) -> StartRun | None:
        """Whether to start a run, given what this look found.

        Args:
            now: a monotonic clock, in seconds.
        """
        if self._started is not None and waiting.progress != self._started.progress:
            self._started, self._since, self._repeats = None, None, 0
        if waiting.records == waiting.unmerged == 0 and not waiting.urgent:
            self._started = self._since = None
            return None
        self._since = now if self._since is None else self._since
        if waiting.life != self._life:
            self._life, self._alive_at = waiting.life, now
        waited = now - self._since
        seconds = self.seconds if waiting.records else max(self.seconds, self.patience[0])
        if not (waiting.urgent or waiting.records >= self.records or waited >= seconds):
            return None
        if self._started is not None:
            first, longest = self.patience if waiting.problem is None else PATIENCE_SECONDS
            if now - self._alive_at < min(first * 2**self._repeats, longest):
                return None
            self._repeats += 1
        self._started, self._alive_at = waiting, now
        return StartRun(waiting.records, waited, waiting.problem)
