"""The stream of the examples, and what must have become of it: plain Python over what was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

_ACCOUNTS = 12


class Payment(NamedTuple):
    payment: int
    account: int
    amount: int

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Payment:
        """Args: row: with these three fields, among others."""
        return cls(*(int(str(row[name])) for name in cls._fields))


@dataclass
class Payments:
    """All that were sent so far."""

    sent: list[Payment] = field(default_factory=list)
    _dice: Random = field(default_factory=lambda: Random("payments"))

    def more(self, number: int = 40) -> list[Payment]:
        """Further ones."""
        first = len(self.sent)
        new = [
            Payment(n, self._dice.randrange(_ACCOUNTS), self._dice.randrange(1, 500))
            for n in range(first, first + number)
        ]
        self.sent += new
        return new

    def newest(self) -> list[Payment]:
        """The last one of each account, in the order of accounts."""
        return sorted({one.account: one for one in self.sent}.values(), key=lambda one: one.account)


@dataclass(frozen=True)
class Verdict:
    """What became of the payments that were sent."""

    lost: int
    doubled: int
    foreign: int  # that nobody has sent

    @classmethod
    def on(cls, sent: Iterable[Payment], found: Iterable[Payment]) -> Verdict:
        wanted, there = Counter(sent), Counter(found)
        doubled = sum(count - 1 for one, count in there.items() if one in wanted)
        return cls(sum((wanted - there).values()), doubled, sum(1 for one in there if one not in wanted))

    @property
    def is_each_once(self) -> bool:
        return (self.lost, self.doubled, self.foreign) == (0, 0, 0)

    @property
    def in_words(self) -> str:
        return "each once" if self.is_each_once else f"{self.lost} lost, {self.doubled} doubled, {self.foreign} foreign"
