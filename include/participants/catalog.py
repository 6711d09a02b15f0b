"""The catalog: all that a pipeline's batch writes, in the order in which it is written.

Whoever adds a kind of participant writes one file that makes its entries from a pipeline, and adds one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Self

from include.lake.uri import LakeUri
from include.participants import changes, follower, outbox, records
from include.participants.follower import Follower
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.participants import Place
from include.settings import Settings

KINDS: list[Callable[[Pipeline], Iterator[Participant | Follower]]] = [
    records.archive,  # first: it does not depend on decoding
    records.quarantine,
    changes.history,
    changes.routes,
    changes.target,
    outbox.outbox,
    follower.sinks,
]


@dataclass(frozen=True)
class Catalog:
    """What a pipeline's batch writes."""

    participants: tuple[Participant, ...]  # the tables, in the order in which they are written
    after: tuple[Follower, ...]  # the systems that follow the point's log

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        found = tuple(chain.from_iterable(kind(pipeline) for kind in KINDS))
        return cls(
            tuple(entry for entry in found if isinstance(entry, Participant)),
            tuple(entry for entry in found if not isinstance(entry, Participant)),
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables. A person accepts one as it is by this name, also the target."""
        return tuple(table.name for table in self.participants)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables, then of the systems after the point."""
        return (*self.tables, *(system.name for system in self.after))

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


def places_of(settings: Settings, pipeline: Pipeline) -> frozenset[LakeUri]:
    """All tables and folders in the lake that a pipeline's batches, backfills, suites and ledger write."""
    written = (participant.uri(settings) for participant in Catalog.of(pipeline).participants)
    return frozenset((*written, *Tables.of(settings, pipeline).own))
