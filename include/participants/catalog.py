"""The catalog: all that a pipeline's batch writes, in the order in which it is written.

Whoever adds a kind of participant writes one file that makes its entries from a pipeline, and adds one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Self

from include.participants import changes, records
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.protocol.participants import Place

KINDS: list[Callable[[Pipeline], Iterator[Participant]]] = [
    records.archive,  # first: it does not depend on decoding
    records.quarantine,
    changes.history,
    changes.routes,
    changes.target,
]


@dataclass(frozen=True)
class Catalog:
    """What a pipeline's batch writes."""

    participants: tuple[Participant, ...]  # in the order in which they are written

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        return cls(tuple(chain.from_iterable(kind(pipeline) for kind in KINDS)))

    @property
    def before(self) -> tuple[Participant, ...]:
        """Those that are written before the point."""
        return self._at("before")

    @property
    def point(self) -> Participant:
        """The one whose commit decides."""
        [found] = self._at("point")
        return found

    def _at(self, place: Place) -> tuple[Participant, ...]:
        return tuple(p for p in self.participants if p.place == place)
