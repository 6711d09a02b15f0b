"""Every interleaving of three attempts at one batch and a backfill's chunk, over one participant before the point.

The attempts run one of two programs, whose rows differ. A process may end after every step. A repair and a further
batch follow, and every head is judged: before the further batch, and after it. With one guard removed the same search
finds wrong heads, so it could.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
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
    base_of,
    chunk_may_land,
    decide,
    repair_due,
)

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
    program: str
    step: str = "guard"  # guard, decide, commit, point, ended
    chain: Position | None = None  # as the last landed batch named it when the attempt began
    seen: int = -1  # the version that was read
    plan: Land | Replace | None = None
    position: Position | None = None  # where it left the table


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
    decision = decide(found, chain, batch, program, "")
    return None if isinstance(decision, Leave | Overtaken) else decision


def above(found: Position, batch: BatchKey) -> Stamp:
    return Stamp(found.marker, found.revision + 1) if found.batch == batch else Stamp(batch.batch_id)


def written(world: World, batch: BatchKey, plan: Land | Replace, program: str, rows: set[str], guards: Guards) -> World:
    base: frozenset[str] = world.table[-1].rows
    if isinstance(plan, Replace):
        live = [(version, c.key) for version, c in enumerate(world.table) if c.key is not None]
        version = base_of(plan.chain, live, batch)
        if not guards.base_moves_forward and plan.chain is not None:
            version = plan.chain.version
        base = frozenset() if version is None else world.table[version].rows
    commit = Commit(BatchKey(batch.generation, plan.stamp.marker), plan.stamp.revision, program, base | rows)
    return world._replace(table=(*world.table, commit))


def steps_of(attempt: Attempt, world: World, guards: Guards) -> Iterator[tuple[World, Attempt]]:
    """What the attempt may do next. It may also end here, killed."""
    batch = BatchKey(1, 1)
    has_landed = world.points[-1].batch_id >= 1
    ended = attempt._replace(step="ended")
    yield world, ended
    match attempt.step:
        case "guard":
            yield world, ended if has_landed else attempt._replace(step="decide", chain=world.named)
        case "decide":
            plan = decided(world, attempt.chain, batch, attempt.program, guards)
            if plan is None:
                yield world, attempt._replace(step="point", position=world.found)
            else:
                yield world, attempt._replace(step="commit", plan=plan, seen=len(world.table) - 1)
        case "commit":
            assert attempt.plan is not None
            stale = attempt.seen != len(world.table) - 1
            # Delta itself refuses a marker that is not higher.
            lower = world.found.batch == batch and world.found.revision >= attempt.plan.stamp.revision
            if lower or (stale and guards.succeeds_what_it_saw):
                yield world, attempt._replace(step="guard")
            else:
                after = written(world, batch, attempt.plan, attempt.program, {f"1{attempt.program}"}, guards)
                yield after, attempt._replace(step="point", position=after.found)
        case "point":
            assert attempt.position is not None
            point = Point(1, attempt.program, attempt.position)
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


def ends(programs: str, with_chunk: bool, guards: Guards) -> set[World]:
    start = (BEGINNING, tuple(Attempt(p) for p in programs), Chunk() if with_chunk else Chunk("ended"))
    seen, todo = {start}, [start]
    found: set[World] = set()
    while todo:
        world, attempts, chunk = todo.pop()
        after = [
            (next_world, (*attempts[:n], next_attempt, *attempts[n + 1 :]), chunk)
            for n, attempt in enumerate(attempts)
            if attempt.step != "ended"
            for next_world, next_attempt in steps_of(attempt, world, guards)
        ]
        if chunk.step != "ended":
            after += [(w, attempts, c) for w, c in steps_of_chunk(chunk, world, guards)]
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


def wrong_heads(programs: str, with_chunk: bool, guards: Guards) -> int:
    """How many ends are wrong: after settle and the repair that is due, or after a further batch instead of it."""
    wrong = 0
    for end in ends(programs, with_chunk, guards):
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


@pytest.mark.parametrize(("programs", "with_chunk"), list(product(("PQ", "PPQ", "PQP", "PQQ"), (False, True))))
def test_i11_no_head_ends_wrong(programs: str, with_chunk: bool) -> None:
    assert wrong_heads(programs, with_chunk, Guards()) == 0


@pytest.mark.parametrize(
    "guard",
    [
        "succeeds_what_it_saw",
        "starts_from_the_position",
        "base_moves_forward",
        "chunk_looks_first",
        "compares_digests",
        "repairs",
    ],
)
def test_i11_without_any_one_guard_a_head_ends_wrong(guard: str) -> None:
    assert wrong_heads("PQP", True, replace(Guards(), **{guard: False})) > 0
