"""The checks: pipelines, one per kind of participant, and one with all that go together.

A check says what its pipeline file holds. What readers must then see, `oracle` knows by the participants' roles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from include.control.deliveries import Deliverer
from include.delivery.creating import create, needed
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import TerminalError
from tests.matrix import oracle
from tests.support.world import World, read_table

SUITE = [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}]
_KEYS = 12


@dataclass(frozen=True)
class Check:
    """A pipeline of the matrix. In the sections, `NAME` stands for the pipeline's name."""

    name: str
    sections: dict[str, Any] = field(default_factory=dict)
    parts: int = 1  # tables before the point; the quarantine is one, also before it has a record
    noted: bool = False  # it has the tests' own participants

    def full_name(self, number: int) -> str:
        """The pipeline's name. Args: number: tells it apart from those before."""
        return f"{'noted_' if self.noted else ''}{self.name}_{number}"

    @property
    def deletes(self) -> bool:
        """Whether deletes are among the changes."""
        return "delete_when" in self.sections.get("change", {})


def _of(name: str, parts: int, noted: bool = False, **sections: Any) -> Check:
    return Check(name, sections, parts, noted)


DATABASE = {"host": "127.0.0.1", "port": "${LAKEMARK_VAR_PORT}", "database": "postgres", "username": "lakemark"}
_DELETES = {"delete_when": "op = 'd'"}
_ROUTES = {
    "routes": [
        {"table": "lake://silver/NAME_0", "when": "id % 3 = 0"},
        {"table": "lake://silver/NAME_1", "when": "id % 3 = 1"},
    ]
}
_HISTORY = {"history_table": "lake://silver/NAME_history"}
CHECKS = [
    _of("target", 1, change=_DELETES),
    _of("archive", 2, change=_DELETES, archive="lake://bronze/NAME"),
    _of("quarantine", 1, change=_DELETES, quality={"suite": "named"}),
    _of("history", 2, target=_HISTORY),
    _of("routes", 3, target=_ROUTES, quality={"suite": "named"}, change=_DELETES),
    _of("versions", 1, change={"history": "scd2"}),
    _of("landing", 1, change=_DELETES, archive="lake://bronze/NAME", merge_every=2),
    _of("notes", 2, noted=True, change=_DELETES),
    _of(
        "everything",
        4,
        archive="lake://bronze/NAME",
        quality={"suite": "named"},
        target=_HISTORY,
        noted=True,
    ),
]


@dataclass
class Case:
    """The pipeline of a check, and all that it has been through."""

    world: World
    check: Check
    pipeline: Pipeline
    batches_sent: int = 0
    is_sound: bool = True

    @classmethod
    def of(cls, world: World, check: Check, number: int) -> Case:
        """A pipeline with two batches in its tables. Args: number: see `Check.full_name`."""
        world.write_suite("named", SUITE)
        case = cls(world, check, written(world, check, check.full_name(number), world.topic()))
        for _ in range(2):
            case.change()
            case.run()
        case.verify()
        return case

    def change(self) -> None:
        """Sends the records of one batch: new keys, newer and late changes, and what cannot be applied."""
        self.batches_sent += 1
        step = 100 * self.batches_sent
        moves = [(n * 7 % _KEYS, step - 130 * (n % 5 == 0) + n) for n in range(18)]
        changes = [{"id": id_, "seq": seq, "name": f"n{seq % 4}", "op": "u"} for id_, seq in moves]
        if self.check.deletes:
            changes[3]["op"] = "d"
        nameless = {"id": _KEYS, "seq": step, "name": None, "op": "u"}
        self.world.produce(self.topic, [*changes, {**changes[1], "id": _KEYS + self.batches_sent}, b"{", nameless])

    def use_another_program(self) -> None:
        """The pipeline file leaves out records from now on."""
        self.pipeline = written(self.world, self.check, self.name, self.topic, {"filter": "seq % 2 = 0"})

    def use_its_own_program(self) -> None:
        self.pipeline = written(self.world, self.check, self.name, self.topic)

    def run(self) -> None:
        """Runs until the pipeline is caught up."""
        for half in self.pipeline.halves:
            self.world.drain(half, ignore_merge_every=True)

    def rebuild_ledger(self) -> None:
        """Whether sinks were paused was lost with the ledger, so they are: a person says that they were not."""
        sinks = [("sinks", "resume", self.name, sink, "--reason", "matrix") for sink in self.pipeline.sinks]
        for command in (("ledger", "rebuild", self.name), *sinks):
            done = self.world.lakemark(*command)
            assert done.returncode == 0, done.stdout + done.stderr

    def land(self) -> None:
        """Lands what can land, if a landing comes first. The next run merges it."""
        for half in self.pipeline.halves[:-1]:
            self.world.drain(half)

    def planned(self) -> BatchKey:
        """Lands what can land, and plans the batch that merges it."""
        self.land()
        return self.world.coordinator(self.pipeline).plan(ignore_merge_every=True).batch.key

    def verify(self) -> None:
        """Every participant is as the oracle says."""
        for half in self.pipeline.halves:
            catalog = Catalog.of(half)
            for participant in catalog.participants:
                rows = read_table(participant.uri(self.world.settings))
                oracle.assert_table_is_right(participant, rows, self.sent, half)
            for name in half.sinks:
                oracle.assert_delivered(delivered(self.world, half, name), self.sent, half)

    def verify_after_a_restart(self) -> None:
        """A process that knows nothing of what happened finds nothing wrong."""
        self.verify()
        done = self.world.lakemark("audit", self.name, "--deep")
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def topic(self) -> str:
        return self.pipeline.source.topics[0]

    @property
    def sent(self) -> list:
        return self.world.sent_to(self.pipeline)


def written(world: World, check: Check, name: str, topic: str, source: dict[str, Any] | None = None) -> Pipeline:
    """The check's pipeline, as its file says. Args: source: more of that section."""
    sections = {**_named(check.sections, name), "sinks": {"app": {"postgresql": {**DATABASE, "table": name}}}}
    return world.pipeline(topic, name, source=source or {}, **sections)


def _named(value: Any, name: str) -> Any:
    """A copy of sections with the pipeline's name in it."""
    if isinstance(value, dict):
        return {key: _named(inner, name) for key, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner, name) for inner in value]
    return value.replace("NAME", name) if isinstance(value, str) else value


def delivered(world: World, pipeline: Pipeline, name: str) -> list[dict[str, Any]]:
    """The rows of a sink, once it has all that has landed. If the target was made anew, a person lets it begin anew."""
    deliverer, port = Deliverer(world.settings, pipeline, name), pipeline.sinks[name].database.port
    create(pipeline, name, needed(pipeline, name))
    try:
        deliverer.deliver()
    except TerminalError as error:
        assert "the table was made anew" in error.what
        deliverer.deliver(as_it_is=True)
    with psycopg.connect(
        host="127.0.0.1", port=port, user="lakemark", dbname="postgres", row_factory=dict_row
    ) as there:
        return there.execute(f'SELECT * FROM "{pipeline.sinks[name].database.table}"'.encode()).fetchall()
