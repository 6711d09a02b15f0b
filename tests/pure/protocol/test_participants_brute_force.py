"""Every interleaving of three attempts at one batch and a backfill's chunk, over one participant before the point.

The attempts run one of two programs, whose rows differ. A process may end before every step, so this also covers fewer
attempts, and no chunk. A repair and a further batch follow, and every head is judged: before the further batch, and
after it. With one guard removed the same search finds wrong heads, so it could.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import NamedTuple

import pytest

from include.protocol.batch import BatchKey
from include.protocol.participants import (
    NOWHERE,
    Land,
    Leave,
    Overtaken,
    Position,
    Replace,
    Stamp,
    Where,
    chunk_may_land,
    decide,
    repair_due,
)
from include.protocol.replace_base import base_of

HERE = Where("p", "history")

FIRST = BatchKey(1, 0)
CHUNK = "chunk"


class Commit(NamedTuple):
    """A version of the participant's table."""

    key: BatchKey | None  # None: a chunk's
    revision: int
    digest: str
    rows: frozenset[str]


class Point(NamedTuple):
    """A commit of the point."""

    batch_id: int
    digest: str
    named: Position


class World(NamedTuple):
    table: tuple[Commit, ...]
    points: tuple[Point, ...]
    chunk_landed: bool = False

    @property
    def named(self) -> Position:
        return self.points[-1].named

    @property
    def found(self) -> Position:
        return at(self.table, len(self.table) - 1)


class Attempt(NamedTuple):
    """It knows what its next steps need, and no more: the search meets fewer states."""

    program: str
    step: str = "guard"  # guard, decide, commit, point, ended
    chain: Position | None = None  # to decide: as the last landed batch named it when the attempt began
    seen: int = -1  # to commit: the version that was read
    plan: Land | Replace | None = None  # to commit
    position: Position | None = None  # at the point: where it left the table


class Chunk(NamedTuple):
    step: str = "decide"  # decide, commit, point, ended
    seen: int = -1


@dataclass(frozen=True)
class Guards:
    """What can be removed."""

    succeeds_what_it_saw: bool = True
    starts_from_the_position: bool = True  # else from the head
    base_moves_forward: bool = True
    chunk_looks_first: bool = True
    compares_digests: bool = True
    repairs: bool = True
    verifies_its_own_commit: bool = True


def at(table: tuple[Commit, ...], version: int) -> Position:
    """Where the table stood at a version."""
    marked = next((c for c in reversed(table[: version + 1]) if c.key is not None), None)
    if marked is None or marked.key is None:
        return replace(NOWHERE, version=version, identity="t")
    return Position(*marked.key, marked.revision, marked.digest, version, "t")


BEGINNING = World(
    (Commit(FIRST, 0, "P0", frozenset({"0"})),), (Point(0, "P0", Position(*FIRST, 0, "P0", version=0, identity="t")),)
)


def decided(
    world: World, chain: Position | None, batch: BatchKey, program: str, guards: Guards
) -> Land | Replace | None:
    """None: there is nothing to write."""
    found = world.found
    if not guards.compares_digests and found.batch == batch:
        return None
    if not guards.starts_from_the_position:
        return None if (found.batch, found.digest) == (batch, program) else Land(above(found, batch))
    decision = decide(found, chain, batch, program, HERE)
    return None if isinstance(decision, Leave | Overtaken) else decision


def above(found: Position, batch: BatchKey) -> Stamp:
    return Stamp(found.marker, found.revision + 1) if found.batch == batch else Stamp(batch.batch_id)


def written(world: World, batch: BatchKey, plan: Land | Replace, program: str, rows: set[str], guards: Guards) -> World:
    base: frozenset[str] = world.table[-1].rows
    if isinstance(plan, Replace):
        live = [(version, c.key) for version, c in enumerate(world.table) if c.key is not None]
        version = base_of(plan.chain, live, batch, HERE)
        if not guards.base_moves_forward and plan.chain is not None:
            version = plan.chain.version
        base = frozenset() if version is None else world.table[version].rows
    commit = Commit(BatchKey(batch.generation, plan.stamp.marker), plan.stamp.revision, program, base | rows)
    return world._replace(table=(*world.table, commit))


def steps_of(attempt: Attempt, world: World, guards: Guards) -> Iterator[tuple[World, Attempt]]:
    """What the attempt may do next. It may also end here, killed."""
    batch, program = BatchKey(1, 1), attempt.program
    has_landed = world.points[-1].batch_id >= 1
    again, ended = Attempt(program), Attempt("", "ended")
    yield world, ended
    match attempt.step:
        case "guard":
            yield world, ended if has_landed else Attempt(program, "decide", chain=world.named)
        case "decide":
            plan = decided(world, attempt.chain, batch, program, guards)
            if plan is None:
                yield world, Attempt(program, "point", position=world.found)
            else:
                yield world, Attempt(program, "commit", plan=plan, seen=len(world.table) - 1)
        case "commit":
            assert attempt.plan is not None
            stamp, stale = attempt.plan.stamp, attempt.seen != len(world.table) - 1
            if world.found.batch == batch and world.found.revision >= stamp.revision:
                # Delta skips a write whose marker is not higher, without an error: the next commit is another one's.
                left = Position(*batch, stamp.revision, program, version=attempt.seen + 1, identity="t")
                yield world, again if guards.verifies_its_own_commit else Attempt(program, "point", position=left)
            elif stale and guards.succeeds_what_it_saw:
                yield world, again
            else:
                after = written(world, batch, attempt.plan, program, {f"1{program}"}, guards)
                yield after, Attempt(program, "point", position=after.found)
        case "point":
            assert attempt.position is not None
            point = Point(1, program, attempt.position)
            yield world if has_landed else world._replace(points=(*world.points, point)), ended


def steps_of_chunk(chunk: Chunk, world: World, guards: Guards) -> Iterator[tuple[World, Chunk]]:
    ended = Chunk("ended")
    yield world, ended
    match chunk.step:
        case "decide":
            if not guards.chunk_looks_first or chunk_may_land(world.found, world.named, 1):
                yield world, Chunk("commit", len(world.table) - 1)
        case "commit":
            if chunk.seen == len(world.table) - 1 or not guards.succeeds_what_it_saw:
                commit = Commit(None, 0, "", world.table[-1].rows | {CHUNK})
                yield world._replace(table=(*world.table, commit)), Chunk("point")
            else:
                yield world, Chunk()
        case "point":
            yield world._replace(chunk_landed=True), ended


def ends(programs: str, guards: Guards) -> set[World]:
    """Every world in which all processes have ended. Attempts that know the same are one to the search."""

    @cache
    def next_of(attempt: Attempt, world: World) -> list[tuple[World, Attempt]]:
        return list(steps_of(attempt, world, guards))

    @cache
    def next_of_chunk(chunk: Chunk, world: World) -> list[tuple[World, Chunk]]:
        return list(steps_of_chunk(chunk, world, guards))

    start = (BEGINNING, tuple(Attempt(p) for p in programs), Chunk())
    seen, todo = {start}, [start]
    found: set[World] = set()
    while todo:
        world, attempts, chunk = todo.pop()
        after = [
            (next_world, tuple(sorted((*attempts[:n], step, *attempts[n + 1 :]), key=hash)), chunk)
            for n, attempt in enumerate(attempts)
            if attempt.step != "ended"
            for next_world, step in next_of(attempt, world)
        ]
        if chunk.step != "ended":
            after += [(w, attempts, c) for w, c in next_of_chunk(chunk, world)]
        if not after:
            found.add(world)
        for state in after:
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return found


def landed(world: World, batch_id: int, program: str, guards: Guards, rows: set[str]) -> World:
    """The world after an undisturbed attempt, which settles and retries until its batch has landed."""
    if world.points[-1].batch_id >= batch_id:
        return world
    batch = BatchKey(1, batch_id)
    plan = decided(world, world.named, batch, program, guards)
    if plan is not None:
        world = written(world, batch, plan, program, rows, guards)
    return world._replace(points=(*world.points, Point(batch_id, program, world.found)))


def is_right(world: World, records: dict[int, set[str]]) -> bool:
    """Whether the head holds what the point says, and nothing else. A chunk that never reached its point may be there
    or not: it is tried again, and order-proof."""
    wanted = {"0"}.union(*(records[point.batch_id] for point in world.points[1:]))
    head = set(world.table[-1].rows)
    return head == wanted | {CHUNK} if world.chunk_landed else head - {CHUNK} == wanted


def wrong_heads(programs: str, guards: Guards) -> int:
    """How many ends are wrong: after settle and the repair that is due, or after a further batch instead of it."""
    wrong = 0
    for end in ends(programs, guards):
        world = landed(end, 1, "P", guards, {"1P"})
        winner = world.points[1].digest
        records = {1: {f"1{winner}"}, 2: {"2P"}}
        further = landed(world, 2, "P", guards, {"2P"})
        repaired = world
        if guards.repairs and repair_due({"h": world.named}, {"h": world.found}):
            repaired = landed(world, 2, "P", guards, set())
        after_repair = {**records, 2: set[str]()}
        wrong += not (is_right(further, records) and is_right(repaired, after_repair))
    return wrong


@pytest.mark.parametrize("programs", ["PPQ", "PQQ"])  # a retry that follows runs P
def test_i11_no_head_ends_wrong(programs: str) -> None:
    assert wrong_heads(programs, Guards()) == 0


@pytest.mark.parametrize("guard", [field.name for field in fields(Guards)])
def test_i11_without_any_one_guard_a_head_ends_wrong(guard: str) -> None:
    assert wrong_heads("PPQ", replace(Guards(), **{guard: False})) > 0
