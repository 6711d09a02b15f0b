"""The tables before the point, as the machine sees them: versions, markers, and what rows of which batch they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from include.participants.heads import verify_not_rolled_back
from include.protocol.batch import FENCE, Batch, BatchKey
from include.protocol.beginnings import Unnamed, before_what_never_landed
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import (
    NOWHERE,
    Land,
    Leave,
    Overtaken,
    Position,
    Positions,
    Replace,
    Stamp,
    Where,
    chunk_may_land,
    decide,
    verify_not_behind,
)
from include.protocol.replace_base import base_of

HERE = Where("p", "history")

Row = tuple[BatchKey | int, str]  # a batch and the program that made it; or a chunk's number


@dataclass(frozen=True)
class Version:
    live: BatchKey | None  # the live batch that made it
    rows: frozenset[Row]
    by_chunk: bool = False
    restores: int | None = None  # the version that a RESTORE went back to


def restore_since(
    since: int | None, until: int, restores: Sequence[tuple[int, int]], by_chunk: Iterable[int] = ()
) -> tuple[int, int] | None:
    """As `TableLog.restored`.

    Args:
        restores: versions of RESTOREs, and where they went back to, oldest first. by_chunk: versions that chunks made.
    """
    took = None
    while since is not None and since < until:
        found = next((r for r in reversed(restores) if since < r[0] <= until), None)
        if found is None:
            break
        until = found[1]
        if until < since or any(until < n < found[0] for n in by_chunk):
            took = found
    return took


@dataclass
class Table:
    """A table before the point. Its versions start at 0, an empty table."""

    identity: str | None = "t"  # None: there is no such table; whoever writes it makes it
    versions: list[Version] = field(default_factory=lambda: [Version(None, frozenset())])
    markers: dict[int, int] = field(default_factory=dict)  # by generation: a stamp's number, or FENCE
    ended: dict[int, int] = field(default_factory=dict)  # by generation: the stamp's number before its fence
    digests: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)  # by generation and stamp's number

    @property
    def version(self) -> int:
        return len(self.versions) - 1

    @property
    def table_id(self) -> str | None:
        return self.identity

    def position(self, generation: int) -> Position:
        """As `TableLog.position`."""
        if self.identity is None:
            return NOWHERE
        for g in range(generation, 0, -1):
            number = self.markers.get(g)
            number = self.ended.get(g) if number == FENCE else number
            if number is not None:
                digest = self._digest_of(g, number)
                return Position(g, *Stamp.of(number), digest, version=self.version, identity=self.identity)
        return replace(NOWHERE, version=self.version, identity=self.identity)

    def _digest_of(self, generation: int, number: int) -> str | None:
        """As `TableLog.digest_of`. A batch of another generation has none in the first form, or was looked at there."""
        digest, version = self.digests.get((generation, number), (None, 0))
        return None if any(v.restores is not None for v in self.versions[version + 1 :]) else digest

    def restored(self, since: int | None, until: int) -> tuple[int, int] | None:
        restores = [(n, v.restores) for n, v in enumerate(self.versions) if v.restores is not None]
        return restore_since(since, until, restores, [n for n, v in enumerate(self.versions) if v.by_chunk])

    def restore(self, back_to: int) -> None:
        """`RESTORE TABLE ... TO VERSION AS OF back_to`: rows go back, markers stay."""
        self.versions.append(Version(None, self.versions[back_to].rows, restores=back_to))

    def newest_generation(self) -> int:
        """The one after a fence has been decided, and may have begun."""
        return max((g + (marker == FENCE) for g, marker in self.markers.items()), default=0)

    def fence(self, generation: int) -> None:
        """As `Fence.raise_in`."""
        left = [g for g in range(1, generation) if self.markers.get(g) != FENCE]
        if not left or self.identity is None:
            return
        self.ended |= {g: self.markers[g] for g in left if g in self.markers}
        self.markers |= dict.fromkeys(left, FENCE)
        self.touch()

    def touch(self) -> None:
        """Maintenance."""
        self.versions.append(Version(None, self.versions[-1].rows))


@dataclass
class Writing:
    """What an attempt does in one table: it looks, and some time later it commits."""

    table: str
    seen: int
    identity: str | None
    decision: Land | Replace


@dataclass
class Beside:
    """The tables before the point, and what is true of them."""

    tables: dict[str, Table] = field(default_factory=lambda: {"history": Table(), "quarantine": Table()})
    landed: set[Row] = field(default_factory=set)  # what landed batches made: all tables must hold it, and nothing else
    chunks: set[Row] = field(default_factory=set)  # of chunks that have landed
    tried: set[Row] = field(default_factory=set)  # of all chunks that were begun
    missing: dict[str, set[Row]] = field(default_factory=dict)  # by table: what it may lack since it was lost
    made: int = 0  # tables in the place of lost ones
    left_out: set[str] = field(default_factory=set)  # the pipeline file does not name these now
    lack_chunks: set[str] = field(default_factory=set)  # the file left these out while a chunk landed
    unknown: set[str] = field(default_factory=set)  # nor did it when the ledger was lost: nobody knows what they hold

    @property
    def judged(self) -> dict[str, Table]:
        """The tables of which something is promised."""
        return {name: table for name, table in self.tables.items() if name not in self.unknown}

    @property
    def named(self) -> dict[str, Table]:
        """The tables that the pipeline file names now."""
        return {name: table for name, table in self.tables.items() if name not in self.left_out}

    def looked(self, name: str, batch: Batch, chain: Positions, digest: str, begun: bool) -> Writing | Position | None:
        """What there is to write; or where the table stands, if there is nothing; or None: ask the point.

        Args:
            begun: whether the batch's generation has ended another one.
        """
        table, key = self.tables[name], batch.key
        if table.identity is None:
            if not batch.ranges:
                if (named := chain.get(name)) is not None:
                    verify_not_behind(NOWHERE, named, HERE)
                return NOWHERE
            self.make(table)
        if table.markers.get(key.generation) == FENCE:
            return None
        found = table.position(key.generation)
        if begun and found.generation != key.generation:
            table.fence(key.generation)
            found = table.position(key.generation)
        verify_not_rolled_back(table, chain.get(name), HERE)
        decision = decide(found, chain.get(name), key, digest, HERE)
        match decision:
            case Leave():
                return found
            case Overtaken():
                return None
        return Writing(name, table.version, table.identity, decision)

    def make(self, table: Table) -> None:
        self.made += 1
        table.identity = f"t{self.made}"

    def lose(self, name: str) -> None:
        self.missing.setdefault(name, set()).update(self._ever_in(name))
        self.tables[name] = Table(None)

    def restore(self, name: str, back_to: int) -> None:
        """A person chooses these rows. A repair that was due is not made over that, and a batch that is about to land
        may have written its rows before."""
        table = self.tables[name]
        after = table.versions[back_to].rows
        self.missing.setdefault(name, set()).update(self._ever_in(name) - after)
        self.tried |= after
        table.restore(back_to)

    def _ever_in(self, name: str) -> set[Row]:
        return self.landed.union(self.chunks, *(version.rows for version in self.tables[name].versions))

    def write(self, writing: Writing, batch: BatchKey, digest: str, row: Row | None) -> Position | None:
        """Commits what was decided; None: another commit was faster."""
        table = self.tables[writing.table]
        if (table.identity, table.version) != (writing.identity, writing.seen):
            return None
        rows = table.versions[-1].rows
        if isinstance(writing.decision, Replace):
            live = [(n, v.live) for n, v in enumerate(table.versions) if v.live is not None]
            base = base_of(writing.decision.chain, live, batch, HERE)
            rows = frozenset() if base is None else table.versions[base].rows
        table.versions.append(Version(batch, rows | ({row} if row else set())))
        number = writing.decision.stamp.number
        assert number > table.markers.get(batch.generation, -1)
        table.markers[batch.generation] = number
        table.digests[batch.generation, number] = (digest, table.version)
        return table.position(batch.generation)

    def chunk_lands(self, chunk: int, state: LedgerState, killed: bool) -> bool:
        """Whether it comes as far as the point."""
        row: Row = (chunk, "chunk")
        self.tried.add(row)
        for name in self.left_out:
            self.missing.setdefault(name, set()).add(row)
        for name, table in self.named.items():
            if table.identity is None:
                self.make(table)
            if table.markers.get(state.generation) == FENCE:
                return False
            if not chunk_may_land(table.position(state.generation), state.positions.get(name), state.generation):
                return False
            table.versions.append(Version(None, table.versions[-1].rows | {row}, by_chunk=True))
            if killed:
                return False
        self.chunks.add(row)
        return True

    def forget(self, of: Callable[[BatchKey | int], bool]) -> None:
        """Nobody knows any more whether these batches had landed."""
        gone = {row for row in self.landed | self.chunks if of(row[0])}
        self.tried |= gone
        self.landed -= gone
        self.chunks -= gone

    def accept(self) -> None:
        """Nobody knows any more which of these rows had landed."""
        for table in self.tables.values():
            self.tried |= table.versions[-1].rows
        self.forget(lambda key: True)

    def newest_generation(self) -> int:
        return max(table.newest_generation() for table in self.named.values())

    def heads(self, generation: int) -> dict[str, Position]:
        return {name: table.position(generation) for name, table in self.named.items()}

    def newest_heads(self, generation: int) -> dict[str, Position]:
        """The same, if the tables may know later generations."""
        return self.heads(max(generation, self.newest_generation()))

    def heads_to_begin_with(self, generation: int, named: Positions, unnamed: Unnamed) -> dict[str, Position]:
        """As the function in `heads`."""
        heads = self.newest_heads(generation)
        for name, head in heads.items():
            live = [(n, v.live) for n, v in enumerate(self.tables[name].versions) if v.live is not None]
            restored = partial(self.tables[name].restored, until=self.tables[name].version)
            heads[name] = before_what_never_landed(head, named.get(name), live=live, unnamed=unnamed, restored=restored)
        return heads

    def verify(self) -> None:
        """Every head holds what has landed, and nothing else but what chunks that are not done have left."""
        landed = self.landed | self.chunks
        for name, table in self.judged.items():
            wanted, held = landed - self.missing.get(name, set()), table.versions[-1].rows
            assert wanted <= held <= landed | self.tried, (name, wanted - held, held - landed - self.tried)
