"""The world of the protocol's machine: Kafka's offsets, a target's log, and those who are at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from include.protocol.batch import Batch, BatchKey
from include.protocol.generations import fenced_for
from include.protocol.ledger_events import Event, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit
from tests.pure.protocol.machine_tables import Writing, restore_since

P, TOPIC, PARTITIONS = "p", "t", 2
Record = tuple[int, int, int]  # the topic's incarnation, partition, offset


@dataclass
class Kafka:
    incarnation: int = 0
    starts: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def extent(self) -> SourceExtent:
        partitions = {
            TopicPartition(TOPIC, p): PartitionExtent(self.starts[p], self.ends[p]) for p in range(PARTITIONS)
        }
        return SourceExtent("cluster", {TOPIC: f"id-{self.incarnation}"}, partitions)


@dataclass(frozen=True)
class Swap:
    """A promotion: a backfill's new table takes the place of all rows, in one commit with the fence."""

    version: int
    number: int
    records: frozenset[Record]


@dataclass
class Target:
    """A log with markers: Delta's, as far as the protocol sees it."""

    markers: dict[int, int] = field(default_factory=dict)  # by generation
    landed: list[LandedCommit] = field(default_factory=list)
    fences: list[str] = field(default_factory=list)  # metadata
    version: int = 0
    is_there: bool = False  # else the first commit makes it
    table_id: str = "id"
    restores: list[tuple[int, int]] = field(default_factory=list)  # version of a RESTORE, and where it went back to
    swaps: list[Swap] = field(default_factory=list)  # promotions, oldest first
    doubled: bool = False  # another writer has put rows there twice: a MERGE changes more of them than it should

    def commit_of(self, key: BatchKey) -> LandedCommit | None:
        return next((c for c in self.landed if c.metadata.batch.key == key), None)

    def holds(self, of: int) -> bool:
        """Whether the rows of a version's commit are in the newest version."""
        version = self.version
        for restore, back_to in reversed(self.restores):
            if restore <= version and of < restore:
                version = back_to
        swapped = max((swap.version for swap in self.swaps if self.holds_swap(swap)), default=0)
        return swapped <= of <= version

    def holds_swap(self, swap: Swap) -> bool:
        """Whether the newest version goes back to a promotion's rows."""
        return replace(self, swaps=[]).holds(swap.version)

    def content(self) -> Counter[tuple[int, Record]]:
        """The records whose changes are in the newest version, by generation; those of a promotion by the backfill."""
        held: Counter[tuple[int, Record]] = Counter()
        for commit in self.landed:
            if self.holds(commit.table_version):
                batch = commit.metadata.batch
                held.update((batch.generation, record) for record in records_in(batch))
        for swap in self.swaps:
            if self.holds(swap.version):
                held.update((-swap.number, record) for record in swap.records)
        return held

    def restored(self, since: int | None, until: int) -> tuple[int, int] | None:
        return restore_since(since, until, self.restores)

    def left(self) -> tuple[LandedCommit | None, GenerationStarted | None]:
        """As in `TargetsWord.stands`, after a RESTORE: the newest batch whose rows are there, or promotion."""
        found: list[tuple[int, LandedCommit | GenerationStarted]] = [(c.table_version, c) for c in self.landed]
        found += [(started.target_version or 0, started) for started in self._begun if started.is_promotion]
        there = [(v, what) for v, what in found if self.restored(v, self.version) is None]
        newest = max(there, key=itemgetter(0), default=(0, None))[1]
        return (newest, None) if isinstance(newest, LandedCommit) else (None, newest)

    def begun(self, generation: int) -> GenerationStarted | None:
        begun = [started for started in self._begun if started.generation == generation]
        return begun[-1] if begun else None

    def begun_after(self, generation: int) -> GenerationStarted | None:
        later = [started for started in self._begun if started.generation > generation]
        return min(later, key=lambda started: started.generation, default=None)

    @property
    def _begun(self) -> list[GenerationStarted]:
        """What all fences say, oldest first."""
        return [started for text in self.fences if (started := fenced_for(text, P)) is not None]


@dataclass
class Planner:
    marker_before: int | None
    seen: int  # events in the ledger when it decided
    events: list[Event]


@dataclass
class Worker:
    """An attempt that has passed the guard and read its ranges."""

    batch: Batch
    state: LedgerState
    program: str = "P"
    writing: Writing | None = None  # it has looked at a table, and has not written it yet
    positions: dict[str, Position] = field(default_factory=dict)  # of the tables that it has landed
    writes: tuple[str, ...] = ("history", "quarantine")  # the tables that its pipeline file names

    @property
    def digest(self) -> str:
        return f"{self.batch.fingerprint} {self.program}"


def number(topic_ids: Mapping[str, str]) -> int:
    """The number of a topic's incarnation."""
    return int(topic_ids[TOPIC].removeprefix("id-"))


def records_in(batch: Batch) -> set[Record]:
    """The records that a batch reads."""
    return records_within(number(batch.topic_ids), batch.ranges)


def records_within(incarnation: int, ranges: Iterable[OffsetRange]) -> set[Record]:
    """The records of offset ranges. Args: incarnation: the topic's."""
    return {(incarnation, r.partition, offset) for r in ranges for offset in range(r.start_offset, r.end_offset)}
