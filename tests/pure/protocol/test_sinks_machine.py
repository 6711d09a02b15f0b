"""A sink beside a lake, as a machine: attempts of two phases, deliveries, resets, restores, maintenance, administrators
take their steps in any order; whoever acts may die or sleep between two of them.

Only the decisions are the product's: what is due, where a sink stands then, how a prepared transaction ends. At each
moment the sink must hold what the table was at the version that its progress says; in the end, what the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from include.protocol.batch import BatchKey
from include.protocol.deliveries import Commit, Fill, Follow, Leave, after, due
from include.protocol.errors import TerminalError
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared

TABLE = "table"
Rows = dict[int, int]
Actor = Iterator[None]  # takes one step each time


@dataclass(frozen=True)
class Made:
    """A commit of the table."""

    commit: Commit
    id: str
    rows: Rows  # of the table then


@dataclass
class Transaction:
    after: Progress | None
    now: Progress
    rows: Rows


class FencedError(Exception):
    """Somebody else has taken the sink."""


@dataclass
class World:
    dice: Random
    log: list[Made] = field(default_factory=lambda: [Made(Commit(0), "made", {})])
    generation: int = 1
    batch: int = -1  # the last one of the generation that has landed
    rows: Rows = field(default_factory=dict)  # of the sink
    progress: Progress | None = None
    prepared: dict[Prepared, Transaction] = field(default_factory=dict)
    holder: int = 0  # whoever has taken the sink last
    foreign: bool = False  # an administrator has committed what the lake never got
    ids: int = 0

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def lands(self, expected: int, commit: Commit, commit_id: str, rows: Rows) -> bool:
        """Makes a commit as that version, if nobody has."""
        if len(self.log) != expected:
            return False
        self.log.append(Made(commit, commit_id, rows))
        return True

    def take(self) -> int:
        self.holder = self.new_id()
        return self.holder

    def verify_holds(self, holder: int) -> None:
        if self.holder != holder:
            raise FencedError

    def put(self, transaction: Transaction) -> None:
        """One transaction of the sink: compares, and sets. What is prepared has locked the progress."""
        if self.prepared or self.progress != transaction.after:
            raise FencedError
        self.progress, self.rows = transaction.now, transaction.rows

    def end(self, prepared: Prepared, commits: bool) -> None:
        transaction = self.prepared.pop(prepared, None)
        if transaction is not None and commits:
            self.put(transaction)

    def id_at(self, version: int) -> str | None:
        return self.log[version].id if version < len(self.log) else None

    def due(self) -> Follow | Fill | Leave:
        commits = [made.commit for made in reversed(self.log)]
        newest = len(self.log) - 1
        return due(self.progress, TABLE, newest, commits, True, begin="start", where="sink", anew="begin anew")

    def bring_up(self, holder: int) -> Actor:
        """As a delivery that has taken the sink."""
        for prepared in [*self.prepared]:
            commits = prepared.has_landed(self.id_at(prepared.version))
            yield
            self.end(prepared, commits)
        while True:
            self.verify_holds(holder)
            waiting = self.due()
            assert isinstance(waiting, Follow)
            if not waiting.commits:
                return
            for commit in waiting.commits:
                yield
                self.verify_holds(holder)
                now = after(self.progress, TABLE, commit)
                self.put(Transaction(self.progress, now, self.log[commit.version].rows))

    def delivery(self) -> Actor:
        holder = self.take()
        yield
        yield from self.bring_up(holder)

    def attempt(self) -> Actor:
        """An attempt at the batch that comes, with a sink of two phases."""
        key = BatchKey(self.generation, self.batch + 1)
        attempt_id, changes = f"attempt {self.new_id()}", {self.dice.randrange(9): self.new_id() for _ in range(3)}
        yield
        if any(made.commit.batch == key for made in self.log) or key.generation != self.generation:
            return
        holder = self.take()
        yield
        yield from self.bring_up(holder)
        version, commit_id = len(self.log), f"commit {self.new_id()}"
        commit, rows = Commit(version, key, attempt_id), {**self.log[-1].rows, **changes}
        yield
        self.verify_holds(holder)
        if self.prepared or self.progress is None or self.progress.version > version - 1:
            raise FencedError
        prepared = Prepared(version, commit_id.replace(" ", "-"))
        now = after(self.progress, TABLE, commit)
        self.prepared[prepared] = Transaction(self.progress, now, rows)
        yield
        is_first = not any(made.commit.batch == key for made in self.log) and key.generation == self.generation
        landed = is_first and self.lands(version, commit, prepared.commit, rows)
        if landed:
            self.batch = key.batch_id
        yield
        self.end(prepared, commits=landed)

    def attempt_beside(self) -> Actor:
        """An attempt at the batch that comes, while the sink is paused: it is not asked."""
        yield
        commit = Commit(len(self.log), BatchKey(self.generation, self.batch + 1), f"attempt {self.new_id()}")
        self.lands(len(self.log), commit, f"commit {self.new_id()}", {**self.log[-1].rows, 0: self.new_id()})
        self.batch += 1

    def maintenance(self) -> Actor:
        yield
        self.lands(len(self.log), Commit(len(self.log)), f"commit {self.new_id()}", self.log[-1].rows)

    def restore(self) -> Actor:
        """A fence that brings rows back, and begins a generation."""
        yield
        rows = self.dice.choice(self.log).rows
        self.generation, self.batch = self.generation + 1, -1
        self.lands(len(self.log), Commit(len(self.log)), f"commit {self.new_id()}", rows)

    def administrator(self) -> Actor:
        yield
        for prepared in [*self.prepared]:
            commits = self.dice.random() < 0.5
            self.foreign |= commits and not prepared.has_landed(self.id_at(prepared.version))
            self.end(prepared, commits)

    def verify(self) -> None:
        if not self.foreign and self.progress is not None:
            assert self.rows == self.log[self.progress.version].rows


def run(world: World, kinds: list[Callable[[], Actor]], steps: int) -> None:
    actors: list[Actor] = []
    for _ in range(steps):
        if len(actors) < 4 and world.dice.random() < 0.4:
            actors.append(world.dice.choice(kinds)())
        if not actors:
            continue
        actor = world.dice.choice(actors)
        if world.dice.random() < 0.08:  # it dies; and one that nobody chooses for long is a zombie
            actors.remove(actor)
            continue
        try:
            next(actor)
        except (StopIteration, FencedError):
            actors.remove(actor)
        world.verify()


def ended(world: World) -> None:
    for _ in range(3):  # a zombie may land once more
        for _ in world.delivery():
            world.verify()


@pytest.mark.parametrize("seed", range(200))
def test_a_sink_holds_what_the_table_was_at_its_progress(seed: int) -> None:
    world = World(Random(seed))
    kinds = [
        world.attempt,
        world.attempt,
        world.attempt,
        world.attempt_beside,
        world.delivery,
        world.maintenance,
        world.restore,
    ]
    run(world, kinds, steps=300)
    ended(world)
    assert world.rows == world.log[-1].rows and not world.prepared
    assert world.batch >= 0 or world.generation > 1


@pytest.mark.parametrize("seed", range(200))
def test_what_an_administrator_ends_by_hand_is_delivered_from_the_log_or_found(seed: int) -> None:
    world = World(Random(seed))
    kinds = [world.attempt, world.attempt, world.attempt_beside, world.delivery, world.administrator]
    try:
        run(world, kinds, steps=300)
        ended(world)
    except TerminalError as error:
        assert world.foreign and "a sink has got what the table's log does not hold" in error.what
    else:
        assert world.rows == world.log[-1].rows and not world.prepared
