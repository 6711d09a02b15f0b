"""How one run drains a group of pipelines: who is next, who gets a run of its own, and when the run gives up. Pure.

A member takes one turn: all that Kafka holds of it when the turn begins. A turn that fails or lasts too long ends
there, and the member goes on in a run of its own DAG, which has its retries, its note and its alert. A turn that only
waits for another system takes no place from others. So no member waits for another one's trouble.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

TURN_SECONDS = 60.0  # the most that a turn may last
SLOW_SECONDS = 10.0  # a turn that has lasted so long gets a worker beside it, for those who wait
ANSWER_SECONDS = 1.0  # a turn that has waited so long for another system gives its place to others
SILENCE_SECONDS = 12.0  # the most that it may wait; a registry that is silent fails it before, and says more
WORKERS = 2  # that work at once
WORKERS_MAX = 4  # with those that stand beside slow ones
TURNS_MAX = 16  # with those that wait for other systems; each holds a process and a session of Spark
TURN_RECORDS_MAX = 200_000  # a member that has more gets a run of its own at once
_TRIED = 3  # members that have all failed, until the trouble is one that they share


@dataclass(frozen=True)
class Due:
    """A member that has something to do."""

    records: int  # that wait, as far as is known; 0: not known
    name: str
    is_suspect: bool = False  # it has failed, or waited, in a run of this group that gave up
    problem: str | None = None  # that only a person can fix, as far as is known

    @property
    def is_large(self) -> bool:
        return self.records > TURN_RECORDS_MAX


class Question(NamedTuple):
    """A wait of a turn. Args: system: that has not answered. since: by the clock of `Turns.begin`."""

    system: str
    since: float


@dataclass
class Turns:
    """The turns of one run.

    Args:
        waiting: those who have had no turn yet.
    """

    waiting: list[Due]
    began: dict[str, float] = field(default_factory=dict)  # the turns that are being taken, and when each has begun
    asks: dict[str, Question] = field(default_factory=dict)  # what those of them ask that wait for another system
    done: int = 0  # turns that have ended well
    failed: int = 0  # turns that have failed by something that another try may not meet

    def __post_init__(self) -> None:
        # Small ones first: so all together wait least. Who had trouble in a run that gave up comes last: if the trouble
        # was not one that all share, somebody does well before them, and they get runs of their own.
        self.waiting = sorted(self.waiting, key=lambda one: (one.is_suspect, one.records, one.name))

    def begin(self, now: float) -> str | None:
        """The next member, whose turn begins now; None if none waits, or enough are at work.

        Args:
            now: a monotonic clock, in seconds.
        """
        at_work = self._at_work(now)
        slow = sum(now - began > SLOW_SECONDS for began in at_work)
        is_full = len(at_work) >= min(WORKERS + slow, WORKERS_MAX) or len(self.began) >= TURNS_MAX
        if not self.waiting or is_full or self._is_doubtful:
            return None
        member = self.waiting.pop(0).name
        self.began[member] = now
        return member

    def ask(self, member: str, system: str | None, now: float) -> None:
        """A turn begins to wait for another system; None: it waits no more. Args: now: as for `begin`."""
        self.asks.pop(member, None)
        if system is not None:
            self.asks[member] = Question(system, now)

    def end(self, member: str, is_good: bool, is_retryable: bool = False) -> None:
        """A turn has ended. Args: is_retryable: it has failed, but another try may do better."""
        del self.began[member]
        self.asks.pop(member, None)
        self.done += is_good
        self.failed += not is_good and is_retryable

    def overdue(self, now: float) -> Collection[str]:
        """The members whose turns have lasted, or waited for another system, too long."""
        return [
            member
            for member, began in self.began.items()
            if now - began > TURN_SECONDS or self._asks_for(SILENCE_SECONDS, member, now)
        ]

    def _at_work(self, now: float) -> list[float]:
        """When the turns have begun that do not wait for another system."""
        return [began for member, began in self.began.items() if not self._asks_for(ANSWER_SECONDS, member, now)]

    def _asks_for(self, seconds: float, member: str, now: float) -> bool:
        return member in self.asks and now - self.asks[member].since > seconds

    @property
    def is_over(self) -> bool:
        return not self.waiting and not self.began

    @property
    def _is_doubtful(self) -> bool:
        """Whether all turns that have ended have failed in a way that may pass."""
        return self.done == 0 and self.failed >= _TRIED

    def is_shared_trouble(self, now: float) -> bool:
        """Whether that is most likely nobody's own trouble, but a server's: nobody is at work any more who may do well.
        The run itself is tried again then, instead of a run for each member. Args: now: as for `begin`."""
        return self._is_doubtful and not self._at_work(now)


def due_members(
    members: Collection[str],
    asked: Mapping[str, int] | None,
    suspects: Collection[str] = (),
    ill: Mapping[str, str] = MappingProxyType({}),
) -> list[Due]:
    """The members that a run is for.

    Args:
        asked: the waiting records of those that it was started for; None: a person has started it, for all. suspects:
            those that have had trouble in runs that gave up since one last ended well. ill: what only a person can fix,
            by member.
    """
    known = dict.fromkeys(members, 0) if asked is None else asked
    return [Due(known[name], name, name in suspects, ill.get(name)) for name in members if name in known]
