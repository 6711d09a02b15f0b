"""Random histories: batches, backfills, savepoints, restores, clones, resets, maintenance and kills, in any order.

After each restore every table is what an oracle says, and going on from there ends where never stopping would end.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from include.checkpoints.listing import checkpoints_in
from include.pipeline_file import VALID_FROM, Pipeline
from include.savepoints.checking import seen
from spark_jobs.commands.maintenance import Maintenance
from tests.spark.checkpoints.test_restore import go_back
from tests.spark.savepoints.test_restore import command
from tests.support.photos import photo, with_tables
from tests.support.stopped import was_killed
from tests.support.topics import Sent
from tests.support.world import World

HISTORIES, GROUPS, STEPS = 200, 20, 9
KEYS = 8
Rows = dict[str, set[Any]]


def oracle(sent: list[Sent], offsets: Mapping[tuple[str, int], int], beside: str) -> Rows:
    """What the tables hold once the records before these offsets were applied. Knows nothing of the product."""
    read = [one for one in sent if one.offset < offsets.get((one.topic, one.partition), 0)]
    changes = [one.value for one in read if isinstance(one.value, dict)]
    newest: dict[int, dict[str, Any]] = {}
    for change in sorted(changes, key=lambda value: value["seq"]):  # no two have the same
        newest[change["id"]] = change
    rows = {(c["id"], c["seq"], c["name"]) for c in newest.values() if c["op"] != "d"}
    found: Rows = {
        "archive": {(one.partition, one.offset) for one in read},
        "quarantine": {(one.partition, one.offset) for one in read if not isinstance(one.value, dict)},
        "target": rows,
    }
    if beside == "history":
        found["history"] = {(c["id"], c["seq"], c["name"]) for c in changes if c["op"] != "d"}
    else:
        found["target"] = {row for row in rows if row[0] % 2 == 0}
        found["route"] = {row for row in rows if row[0] % 2 == 1}
    return found


def held(world: World, pipeline: Pipeline) -> Rows:
    found: Rows = {}
    for name, rows in photo(world, pipeline).items():
        if name in ("archive", "quarantine"):
            found[name] = {(row["partition"], row["offset"]) for row in rows}
            continue
        shown = [row for row in rows if not row["_lakemark"].get("deleted") and row.get(VALID_FROM, 0) is not None]
        found["route" if "/" in name else name] = {(row["id"], row["seq"], row["name"]) for row in shown}
    return found


@dataclass
class History:
    """One pipeline, and what was done with it."""

    world: World
    pipeline: Pipeline
    beside: str
    chance: random.Random
    seqs: list[int]
    savepoints: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)

    def step(self) -> None:
        known = checkpoints_in(self.world.settings, self.pipeline)
        choices: dict[str, int] = {"batch": 10}
        if known:
            choices |= {"savepoint": 4, "checkpoint": 3, "reset": 1, "backfill": 1, "maintenance": 1}
        if self.savepoints:
            choices |= {"restore": 4, "clone": 1, "drop": 1}
        name = self.chance.choices([*choices], [*choices.values()])[0]
        self.did.append(name)
        getattr(self, f"do_{name}")()

    def do_batch(self) -> None:
        values: list[Any] = []
        for _ in range(self.chance.randint(1, 6)):
            seq, op = self.seqs.pop(), "d" if self.chance.random() < 0.15 else "u"
            values.append({"id": self.chance.randrange(KEYS), "seq": seq, "name": f"n{seq}", "op": op})
        values += [b"no json"] if self.chance.random() < 0.3 else []
        self.chance.shuffle(values)
        self.world.produce(self.pipeline.source.topics[0], values, 2)
        if self.chance.random() < 0.85:
            self.world.run_batch(self.pipeline)

    def do_savepoint(self) -> None:
        name = f"s{len(self.did)}"
        told = ["--name", name, *(["--copy"] if self.chance.random() < 0.5 else [])]
        fault = self.chance.choice(["", "", "begun", "table_saved", "published"])
        self.did[-1] += f" {' '.join(told)} {fault}"
        if fault:
            killed = command(self.world, "create", self.pipeline, *told, LAKEMARK_TEST_FAULT=f"savepoint.{fault}=kill")
            assert was_killed(killed.returncode, killed.stderr), killed.stderr
        if fault != "published":
            self._does("create", *told)
        assert self._does("verify", name)
        self.savepoints.append(name)

    def do_restore(self) -> None:
        name = self.chance.choice(self.savepoints)
        cut = next(one for one in self._savepoints() if one.name == name).begun
        fault = self.chance.choice(["", "", "part_fenced=kill@1", "part_fenced=kill@2", "fenced=kill"])
        self.did[-1] += f" {name} of {cut.checkpoint.name} {fault}"
        told = (name, "--reason", "a test")
        if fault:
            killed = command(self.world, "restore", self.pipeline, *told, LAKEMARK_TEST_FAULT=f"generation.{fault}")
            assert was_killed(killed.returncode, killed.stderr), killed.stderr
        self._does("restore", *told)
        self._holds(cut.checkpoint.next_offsets)

    def do_checkpoint(self) -> None:
        to = self.chance.choice(checkpoints_in(self.world.settings, self.pipeline))
        self.did[-1] += f" {to.name}"
        go_back(self.world, self.pipeline, to.name)
        self._holds(to.next_offsets)

    def do_clone(self) -> None:
        name = self.chance.choice(self.savepoints)
        cut = next(one for one in self._savepoints() if one.name == name).begun
        new = f"c{uuid.uuid4().hex[:8]}"
        self._does("clone", name, "--as", new)
        self._holds(cut.checkpoint.next_offsets, self.world.load(new))
        (self.world.settings.pipelines / f"{new}.yaml").unlink()

    def do_drop(self) -> None:
        self.savepoints.remove(name := self.chance.choice(self.savepoints))
        self._does("drop", name)

    def do_reset(self) -> None:
        done = self.world.lakemark("reset", self.pipeline.name, "--reason", "a test")
        assert done.returncode == 0, done.stderr

    def do_backfill(self) -> None:
        last = checkpoints_in(self.world.settings, self.pipeline)[-1].next_offsets
        tp, end = self.chance.choice(sorted(last.items()))
        if end > 0:
            told = ("--range", f"{tp.topic}-{tp.partition}:{self.chance.randrange(end)}-{end}", "--reason", "a test")
            done = self.world.lakemark("backfill", self.pipeline.name, *told)
            assert done.returncode == 0, done.stderr

    def do_maintenance(self) -> None:
        small = self.pipeline.model_copy(
            update={"maintenance": self.pipeline.maintenance.model_copy(update={"small_files_max": 1})}
        )
        with self.world.session() as spark:
            Maintenance(lambda: spark, self.world.settings, small, "test", lambda fact: None).run()

    def ends(self) -> None:
        """As never having stopped: all that was sent is there."""
        self.world.drain(self.pipeline)
        ends: dict[tuple[str, int], int] = {}
        for one in self.world.sent_to(self.pipeline):
            ends[one.topic, one.partition] = max(ends.get((one.topic, one.partition), 0), one.offset + 1)
        self._holds(ends)
        assert [one.lost for one in seen(self.world.settings, self.pipeline)] == [None] * len(self.savepoints)

    def _holds(self, offsets: Mapping[Any, int], pipeline: Pipeline | None = None) -> None:
        wanted = oracle(self.world.sent_to(self.pipeline), {tuple(tp): at for tp, at in offsets.items()}, self.beside)
        assert held(self.world, pipeline or self.pipeline) == wanted, self.did

    def _does(self, action: str, *told: str) -> bool:
        done = command(self.world, action, self.pipeline, *told)
        assert done.returncode == 0, (self.did, done.stderr)
        return True

    def _savepoints(self) -> list[Any]:
        return [one.on_shelf for one in seen(self.world.settings, self.pipeline)]


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_tables_are_always_those_of_one_cut(world: World, group: int) -> None:
    for number in range(HISTORIES // GROUPS):
        chance = random.Random(f"{group} {number}")
        beside = chance.choice(["history", "routes"])
        pipeline = with_tables(world, f"h{group}_{number}", world.topic(2), beside)
        seqs = list(range(1_000))
        chance.shuffle(seqs)
        history = History(world, pipeline, beside, chance, seqs)
        for _ in range(STEPS):
            history.step()
        history.ends()
