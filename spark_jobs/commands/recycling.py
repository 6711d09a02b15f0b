"""When the warm server ends, for its supervisor to start a fresh one: Connect servers keep memory that no session has
any more. Pure: time and memory are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

REST_SECONDS = 3.0  # that no session has been used: nobody is between two statements of a batch
GAP_AFTER_SECONDS = 120.0  # that it is due: then it is enough that no statement runs
ANYHOW_AFTER_SECONDS = 900.0  # that it is due: then it ends in any case. What is interrupted is attempted again


@dataclass(frozen=True)
class Limits:
    """What a server may become."""

    seconds: float  # of age
    memory_bytes: int  # resident


class Use(NamedTuple):
    """What a server is at."""

    is_executing: bool
    rest_seconds: float  # since a session was last used


@dataclass
class Recycling:
    limits: Limits
    _due_at: float | None = None  # the age at which it became due

    def why_now(self, age: float, memory_bytes: int, use: Callable[[], Use]) -> str | None:
        """Why the server ends now; None: it goes on.

        Args:
            age: in seconds. use: is asked for if it is due.
        """
        why = self._why_due(age, memory_bytes)
        if why is None:
            self._due_at = None
            return None
        self._due_at = age if self._due_at is None else self._due_at
        waited, (is_executing, rest) = age - self._due_at, use()
        is_quiet = not is_executing and (rest >= REST_SECONDS or waited >= GAP_AFTER_SECONDS)
        return why if is_quiet or waited >= ANYHOW_AFTER_SECONDS else None

    def _why_due(self, age: float, memory_bytes: int) -> str | None:
        if age > self.limits.seconds:
            return f"it is {age / 3600:.1f} hours old"
        if memory_bytes > self.limits.memory_bytes:
            return f"it holds {memory_bytes >> 20:,} MB"
        return None
