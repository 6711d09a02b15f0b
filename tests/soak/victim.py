"""A pipeline under fire, as the soak's faults see it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from deltalake.exceptions import TableNotFoundError

from include.installation.stack import Stack
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.settings import MergeEngine
from tests.soak.load import Expected, changes
from tests.soak.sinks import Outlet
from tests.support.advice import advised
from tests.support.lossy_store import LossyStore
from tests.support.readers import opened
from tests.support.world import LAKEMARK, World

RUN_SECONDS_MAX = 300
PARTITIONS = 3
NEW_KEYS = 2 * 10**9  # no other change is of these
ENGINES = get_args(MergeEngine)
_ERRORS_MAX = 6  # on the way out of one fault


@dataclass(frozen=True)
class Table:
    """A table that the victim's batches write."""

    half: Pipeline  # whose batches they are
    role: str
    name: str  # as findings of an audit name it
    uri: LakeUri

    @property
    def version(self) -> int | None:
        """None: there is no such table yet."""
        try:
            return opened(self.uri).version()
        except TableNotFoundError:
            return None


@dataclass
class Victim:
    """One pipeline under fire."""

    world: World
    stack: Stack
    pipeline: Pipeline
    expected: Expected
    chance: random.Random
    keys: int  # of its changes: from 0 up to this
    forgets: bool  # Kafka may lose records of its topic
    store: LossyStore | None  # its lake's; None: a local lake
    outlets: dict[str, Outlet]  # its sinks, by name
    is_whole: bool = True  # what it reads from still holds all that was ever sent
    rejected: list[str] = field(default_factory=list)  # names that its suite sets aside
    renewed: set[str] = field(default_factory=set)  # sinks that have got the table as it is
    engines: Counter[str] = field(default_factory=Counter)  # of its runs
    group: Sequence[str] = ()  # the pipelines that drain together with it, and itself; empty: it runs alone

    @property
    def proxy(self) -> LossyStore:
        """What is before the lake's store."""
        assert self.store is not None, "its lake is local"
        return self.store

    @property
    def more(self) -> dict[str, Any]:
        """Fields that its changes have beside those of all pipelines."""
        return {"kind": "a", "old_id": None} if self.expected.moves else {}

    @property
    def moves_together(self) -> bool:
        """Whether a sink moves with its target."""
        return any(sink.mode == "two_phase" for sink in self.pipeline.sinks.values())

    @property
    def purges(self) -> bool:
        return self.pipeline.maintenance.purge_tombstones_after_days is not None

    @property
    def topic(self) -> str:
        return self.pipeline.source.topics[0]

    @property
    def reader(self) -> str:
        """The name of the half that reads Kafka."""
        return self.pipeline.halves[0].name

    @property
    def tables(self) -> dict[str, Table]:
        """All tables that its batches write, by role: target, archive, quarantine, history, route."""
        named = {"target": self.pipeline.target.table, "history": self.pipeline.target.history_table}
        return {
            p.role: Table(
                half, p.role, half.name if half.is_landing else named.get(p.role) or p.name, p.uri(self.world.settings)
            )
            for half in self.pipeline.halves
            for p in Catalog.of(half).participants
        }

    def send(self, count: int) -> None:
        """Sends changes, and expects what must come of them."""
        values = changes(self.chance, count, self.keys, self.expected.events, self.expected.moves)
        self.expected.add(self.world.produce(self.topic, values, PARTITIONS))
        self.world.sent.clear()

    def write_suite(self, *more: str) -> None:
        """Writes the suite by which its records are judged.

        Args:
            more: names that it sets aside, beside those that it sets aside for good.
        """
        rules = [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}]
        if names := [*self.rejected, *more]:
            kwargs = {"column": "name", "value_set": names}
            rules.append({"type": "expect_column_values_to_not_be_in_set", "kwargs": kwargs})
        self.world.write_suite(self.pipeline.name, rules)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """A command of Lakemark's. What it merges is merged by an engine that chance picks, unless the caller does."""
        return self.world.start(LAKEMARK, *command, **self._with_engine(command[0] == "run", environment))

    def run(self, **environment: str) -> subprocess.Popen[str]:
        """A run of its own, or one of its group."""
        if not self.group:
            return self.start("run", self.pipeline.name, **environment)
        members = self.chance.sample(self.group, len(self.group))
        drained = (sys.executable, "-m", "tests.support.drained", *members)
        return self.world.start(*drained, **self._with_engine(True, environment))

    def _with_engine(self, is_run: bool, environment: Mapping[str, str]) -> Mapping[str, str]:
        chosen = {"LAKEMARK_MERGE_ENGINE": self.chance.choice(ENGINES), **environment}
        self.engines[chosen["LAKEMARK_MERGE_ENGINE"]] += is_run
        return chosen

    def command(self, *command: str, code: int | None = 0) -> str:
        process = self.start(*command)
        said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
        assert code is None or process.returncode == code, said
        return said

    def drain(self) -> None:
        """Runs without faults until caught up. What a fault left behind may cost an attempt or two."""
        for left in (2, 1, 0):
            process = self.start("run", self.pipeline.name, "--until-caught-up")
            said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
            if process.returncode == 0:
                break
            assert left, said
            self.deliver()  # one that moves with the lake may stop it
        self.deliver()

    def deliver(self) -> None:
        """Brings all sinks up. Where a delivery fails, it types the first command that the error gives."""
        for _ in range(_ERRORS_MAX if self.outlets else 0):
            done = self.world.lakemark("sinks", "deliver", self.pipeline.name)
            if done.returncode == 0:
                return
            for told in advised(done.stderr, self.pipeline)[:1]:
                self._typed(told)
        assert not self.outlets, f"what the errors of deliveries say leads nowhere: {done.stderr}"

    def _typed(self, told: list[str]) -> subprocess.CompletedProcess[str]:
        """A command that an error gives."""
        self.renewed |= {*told} & {*self.outlets} if "--snapshot" in told else set()
        return self.world.lakemark(*told)

    def do_as_told(self) -> list[str]:
        """Runs until caught up. For every error on the way it types the first command that the error gives; if that is
        refused, the first one that the refusal gives. Returns the errors' names."""
        met: list[str] = []
        while len(met) < _ERRORS_MAX:
            done = self.world.lakemark("run", self.pipeline.name, "--until-caught-up", "--json")
            if done.returncode == 0:
                return met
            error = json.loads(done.stdout)
            met.append(error["error"])
            told = advised(error["action"], self.pipeline)
            while told:
                followed = self._typed(told[0])
                if followed.returncode == 0:
                    break
                told = advised(followed.stderr, self.pipeline)
                assert told, (error, followed.stderr)
        raise AssertionError(f"what the errors say leads nowhere: {met}")
