"""What a pipeline guarantees from end to end: the guarantee of its weakest part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["at_most_once", "at_least_once", "exactly_once"]
_ORDER: tuple[Level, ...] = ("at_most_once", "at_least_once", "exactly_once")


@dataclass(frozen=True)
class Part:
    name: str
    level: Level
    because: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def end_to_end(parts: Sequence[Part]) -> Part:
    """The weakest part; the first of several that are equally weak."""
    return min(parts, key=lambda part: _ORDER.index(part.level))
