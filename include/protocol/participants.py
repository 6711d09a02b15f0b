"""Where a participant of a batch stands, and what an attempt does there. Pure.

An attempt is the coordinator of one batch. Every table that it writes is a participant. Exactly one of them is the
commit point: its commit decides whether the batch has landed, and names the position of every other participant. An
attempt lands the participants `before` the point first. So these may hold what an attempt has left that never reached
the point, or that woke up after it. An attempt therefore never trusts the head of such a table: it compares the head
with the position that the point names, and starts from there.

Source: two-phase commit (Gray, "Notes on Data Base Operating Systems", 1978); docs/protocol.md, "Participants".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

from include.protocol.batch import FORM, BatchKey
from include.protocol.errors import LedgerBehindTarget, TargetBehindLedger, TerminalError
from include.protocol.json_data import JsonMapping, JsonObject

Place = Literal["before", "point", "after"]
REVISIONS = 65_536  # of one batch in one table; a stamp is the batch id times this number, plus the revision
NEVER = -1  # as a marker: no batch has written the table yet


class Stamp(NamedTuple):
    """Which batch wrote a table last, and which revision of it. The table's marker holds both in one number, which only
    grows."""

    marker: int  # the batch id; NEVER: none
    revision: int = 0  # how often the batch was written anew there

    @property
    def number(self) -> int:
        """The `version` of the `txn` action."""
        return self.marker * REVISIONS + self.revision

    @classmethod
    def of(cls, number: int, form: int = FORM) -> Self:
        """The inverse of `number`. In the first form of batches, a marker is the batch id."""
        return cls(*divmod(number, REVISIONS)) if form > 1 else cls(number)


class Where(NamedTuple):
    """A table before the point, in an error."""

    of: str  # the pipeline, or the batch
    table: str  # the participant's name

    def __str__(self) -> str:
        return f"{self.of}, {self.table}"

    @property
    def pipeline(self) -> str:
        return self.of.partition(" ")[0]

    @property
    def as_it_is(self) -> str:
        """The advice to a person who wants to go on so."""
        command = f"`lakemark reset {self.pipeline} --accept {self.table} --reason ...`"
        return f"or, to go on with the table as it is, {command}"


@dataclass(frozen=True)
class Position:
    """Where a participant stands."""

    generation: int  # of the batch that wrote it last; 0: none has
    marker: int  # that batch; NEVER: none has
    revision: int  # of that batch there
    digest: str | None = None  # of the batch's content and program; None: it expired, or an older Lakemark wrote it
    version: int | None = None  # Delta's; None: outside the lake, or there is no such table
    identity: str | None = None  # the table's id; None: there is no such table
    left_out: bool = False  # the pipeline file has left the table out since: it lacks batches that have landed

    @property
    def batch(self) -> BatchKey:
        """The batch that wrote it last."""
        return BatchKey(self.generation, self.marker)

    @property
    def since_version(self) -> int:
        """The version that what comes after it was written since: -1, before the first one, if there is none."""
        return -1 if self.version is None else self.version

    @property
    def in_words(self) -> str:
        if self.marker == NEVER:
            return "no batch"
        return f"generation {self.generation} batch {self.marker}" + (
            f" revision {self.revision}" if self.revision else ""
        )

    def is_at(self, other: Position) -> bool:
        """Whether both name the same state. Maintenance changes the version, and log clean-up removes the digest:
        neither matters. A table that was made since then may have any identity if no batch had written it."""
        same_table = self.identity == other.identity or None in (self.identity, other.identity)
        return same_table and (self.batch, self.revision) == (other.batch, other.revision)

    def to_json(self) -> JsonObject:
        return {
            "generation": self.generation,
            "marker": self.marker,
            "revision": self.revision,
            "digest": self.digest,
            "version": self.version,
            "identity": self.identity,
            **({"left_out": True} if self.left_out else {}),
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(**data)


NOWHERE = Position(0, NEVER, 0)  # of a table that no batch has written
Positions = Mapping[str, Position]  # by the participant's name


def positions_to_json(positions: Positions | None) -> JsonObject | None:
    if positions is None:
        return None
    return {name: position.to_json() for name, position in sorted(positions.items())}


def positions_from_json(data: JsonMapping | None) -> dict[str, Position] | None:
    """The inverse. None, which says nothing, is not the same as no positions."""
    return None if data is None else {name: Position.from_json(position) for name, position in data.items()}


@dataclass(frozen=True)
class Land:
    """The table stands where the batch before has left it: add the batch's changes."""

    stamp: Stamp


@dataclass(frozen=True)
class Replace:
    """The table holds what is not part of any landed batch: make it the state at `chain`, plus the batch's changes, in
    one commit."""

    stamp: Stamp
    chain: Position | None  # None: what the table held before the batch's first commit there


@dataclass(frozen=True)
class Leave:
    """The table holds the batch as this attempt would write it."""


@dataclass(frozen=True)
class Overtaken:
    """A later batch has written the table. So this one has landed long since, or its generation has ended: ask the
    point."""


Decision = Land | Replace | Leave | Overtaken


def decide(found: Position, chain: Position | None, batch: BatchKey, digest: str, where: Where) -> Decision:
    """What an attempt at a batch does in a table before the point. The attempt's commit must succeed the very version
    that `found` was read from; otherwise it decides again.

    Args:
        chain: the position that the last landed batch names; None: it names none, so the table is accepted as it is,
            unless batches of this generation are missing there.
        digest: of what this attempt would write there.
        where: names the table in an error.

    Raises:
        TargetBehindLedger: the table is another one, or lacks batches that have landed.
        TerminalError: the batch was written there more often than a stamp can count.
    """
    if found.batch > batch:
        return Overtaken()
    if chain is not None:
        verify_not_behind(found, chain, where)
    elif found.generation == batch.generation and found.marker < batch.batch_id - 1:
        verify_not_behind(found, replace(found, left_out=True), where)
    if found.batch == batch and found.digest == digest:
        return Leave()
    if found.batch < batch and (chain is None or found.is_at(chain)):
        return Land(Stamp(batch.batch_id))
    return Replace(_above(found, batch, where), chain)


def _above(found: Position, batch: BatchKey, where: Where) -> Stamp:
    """The stamp of the next write: it is above the one that is there."""
    if found.batch != batch:
        return Stamp(batch.batch_id)
    if found.revision + 1 == REVISIONS:
        raise TerminalError(
            what="a batch was written anew too often",
            where=str(where),
            expected=f"fewer than {REVISIONS} revisions",
            found=str(found.revision + 1),
            action="attempts with different pipeline files, suites or transforms undo each other: give all machines "
            f"the same files, then `lakemark reset {where.pipeline} --reason ...`",
        )
    return Stamp(found.marker, found.revision + 1)


def verify_not_behind(found: Position, named: Position, where: Where) -> None:
    """Checks that a table holds all that the last landed batch has left in it.

    Raises:
        TargetBehindLedger: it is another table, or it lacks batches.
    """
    if is_older(found, named):
        raise TargetBehindLedger(
            what="a table that batches write beside the target is not as the last batch left it",
            where=str(where),
            expected=f"table id {named.identity}, {named.in_words}",
            found=f"table id {found.identity}, {found.in_words}" if found.identity else "no table",
            action="the table was replaced or rolled back: bring the right one back; or "
            f"`lakemark reset {where.pipeline} --from earliest --reason ...` fills it again (changes are order-proof); "
            f"{where.as_it_is}",
        )
    if named.left_out:
        raise TargetBehindLedger(
            what="the pipeline file left this table out for a time, so it lacks batches",
            where=str(where),
            expected="every batch that has landed",
            found=f"none after {named.in_words}",
            action=f"leave it out for good; or `lakemark reset {where.pipeline} --from earliest --reason ...` fills it "
            f"(changes are order-proof); {where.as_it_is}",
        )


def rolled_back(named: Position, version: int, back_to: int | None, where: Where) -> TargetBehindLedger:
    """The error for a table that a RESTORE rolled back.

    Args:
        named: as the last landed batch has left it. version: that RESTORE made. back_to: it went back to; None: it does
            not say.
    """
    return TargetBehindLedger(
        what="a RESTORE rolled back a table that batches write beside the target, which removes rows and leaves "
        "markers as they are",
        where=f"{where}, version {version}",
        expected=f"the rows of version {named.version}",
        found="the rows of an earlier time" if back_to is None else f"the rows of version {back_to}",
        action=f"`lakemark reset {where.pipeline} --from earliest --reason ...` fills it again (changes are "
        f"order-proof); or restore version {version - 1}; {where.as_it_is}",
    )


def is_behind(found: Position, named: Position) -> bool:
    """Whether a table lacks what landed batches have left in it, or would have."""
    return named.left_out or is_older(found, named)


def is_older(found: Position, named: Position) -> bool:
    """Whether a table is another one, or stands before a position."""
    is_other = named.identity not in (None, found.identity)
    return is_other or (found.batch, found.revision) < (named.batch, named.revision)


def chunk_may_land(found: Position, chain: Position | None, generation: int) -> bool:
    """Whether a chunk of a backfill may write a table before the point. Where a live batch has begun to land, a Replace
    may still take back everything since its base, and the chunk with it.

    Args:
        chain: as for `decide`. If no landed batch names the table, none of this generation may have begun there.
    """
    return found.generation != generation if chain is None else found.is_at(chain)


def repair_due(named: Positions, heads: Positions) -> list[str]:
    """The participants whose heads are not where the last landed batch left them, while no batch is planned.

    The next batch mends them, even if it has no records.
    """
    return sorted(name for name, head in heads.items() if name in named and not head.is_at(named[name]))


def standing(named: Positions, heads: Positions) -> dict[str, Position]:
    """What a new batch stands on: where the last landed batch has left each table; a table that it does not name is
    accepted as it is. A table that the pipeline file has just left out keeps its position: it may come back."""
    return {**heads, **named}


def ended(pipeline: str, generation: int, table: str) -> LedgerBehindTarget:
    """The error of a table before the point that knows of a later generation than the target and the ledger."""
    return LedgerBehindTarget(
        what="a table says that the ledger's generation has ended, and the target does not",
        where=f"{pipeline} generation {generation}, {table}",
        expected="a ledger in the newest generation",
        found="a fence of this generation",
        action="the ledger and the target were lost, or restored from a copy: bring the right ones back; or "
        f"`lakemark reset {pipeline} --from earliest --reason ...` begins a generation after all that the tables know",
    )
