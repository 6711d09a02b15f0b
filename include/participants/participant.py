"""A participant: one table (later also one system) that a batch writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from include.lake.uri import LakeUri
from include.pipeline_file.table_spec import AppendSpec, TableSpec
from include.protocol.commit_metadata import Role
from include.protocol.participants import Place
from include.settings import Settings

# What of a batch a participant gets: its records as they were read; those that are set aside; each accepted change to
# the target; all changes, reduced; or the changes that no route takes (with a route: that it takes), reduced.
Takes = Literal["records", "set aside", "accepted", "all changes", "changes"]
POINT = "target"  # the name of every pipeline's commit point
_PLACE = "lake://"  # a route's table is called by its place


@dataclass(frozen=True)
class Participant:
    """One table that a pipeline's batches write."""

    name: str  # in positions, findings and reports; the same for ever
    role: Role  # in the metadata of its commits
    place: Place
    takes: Takes
    path: str  # in the lake
    make_spec: Callable[[], TableSpec | AppendSpec]  # later: people also look at files whose schema is masked
    phase: str  # of an attempt, while it writes this table
    in_words: str  # for people
    because: str  # why it is written exactly once, for people
    route: int | None = None  # the place of the route whose changes it takes
    by_chunks: bool = True  # a backfill's chunk writes it, too

    def uri(self, settings: Settings) -> LakeUri:
        """Where it lies."""
        return settings.lake / self.path

    @cached_property
    def spec(self) -> TableSpec | AppendSpec:
        """What the table is."""
        return self.make_spec()


def is_of_route(name: str) -> bool:
    """Whether a participant of this name takes some of the target's changes."""
    return name.startswith(_PLACE)
