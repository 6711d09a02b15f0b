"""Deliveries to every kind of sink while all goes wrong, from a seed: in the end the sink has what the table has.

Each round lands a batch and deals one fault to a delivery: it is killed or stopped at a point (and wakes up rounds
later, a zombie), its server is killed or frozen, an answer is lost. A reader looks at the sink all the time: it sees
the rows of whole batches only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psutil
import pytest

from include.control.deliveries import Deliverer
from include.delivery import database
from include.delivery.creating import create, needed
from include.installation.stack import Stack
from include.protocol.errors import OutcomeUnknownError, RetryableError
from tests.local.delivery.test_files_and_classes import rows_in
from tests.support.lossy_link import LossyLink, lossy_link
from tests.support.sink_broker import sink_broker
from tests.support.sink_servers import SinkServer
from tests.support.sink_topics import Topic
from tests.support.stopped import end
from tests.support.stream import Change, Stream, attempt, process, some
from tests.support.waiting import wait_until
from tests.support.without_kafka import COMMAND

DELIVER = ("sinks", "deliver", "p", "app")
POINTS = ("sink.taken", "sink.written", "sink.committed")
TOGETHER = ("sink.taken", "sink.written", "sink.prepared", "sink.prepared", "sink.landed", "sink.landed")
FAULTS = 70  # of each kind of sink, in the slow test
KINDS = ("postgresql", "mysql", "broker", "files", "postgresql two_phase", "mysql two_phase")
Rows = list[tuple[int, int, str | None]]


class Server(Protocol):
    """What a test does to the server of a sink."""

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def freeze(self, frozen: bool = True) -> None: ...


@dataclass
class Attacked:
    """A stream with a sink, and what attacks it."""

    stream: Stream
    held: Callable[[], Rows]
    dice: Random
    server: Server | None = None
    link: LossyLink | None = None
    zombies: list[subprocess.Popen] = field(default_factory=list)
    states: list[Rows] = field(default_factory=list)  # after each batch
    told: list[str] = field(default_factory=list)

    def round(self) -> None:
        """A batch, and a fault."""
        self._land()
        self.fault(POINTS)
        self.wake(self.dice.randrange(3))

    def end(self) -> None:
        """All is well again."""
        self.deliver()
        self.wake(0)
        self._land()
        self.deliver()

    def _land(self) -> None:
        changes = some(self.dice, len(self.stream.changes))
        self.states.append(self.stream.rows_with(changes))  # first: the reader may be faster
        self.stream.land(changes)

    def deliver(self) -> None:
        """Delivers all, whatever stands in the way for a while."""
        deliverer = Deliverer(self.stream.coordinator.settings, self.stream.coordinator.pipeline, "app")

        def done() -> bool:
            try:
                return deliverer.deliver() is not None
            except (RetryableError, OutcomeUnknownError):
                return False

        wait_until(done, 120)

    def fault(self, points: Sequence[str]) -> None:
        """Deals one fault to a delivery. Args: points: at which it may be killed or stopped."""
        point = self.dice.choice(points)
        kinds: list[Callable[[], str]] = [lambda: self._killed(point)] * 2 + [lambda: self._stopped(point)]
        kinds += [self._server_killed, self._server_frozen] if self.server is not None else []
        kinds += [self._answer_lost] if self.link is not None else []
        self.told.append(self.dice.choice(kinds)())

    def wake(self, number: int) -> None:
        """Lets the oldest zombies go on, until there are so many."""
        while len(self.zombies) > number:
            zombie = self.zombies.pop(0)
            zombie.send_signal(signal.SIGCONT)
            zombie.wait(120)

    def _killed(self, point: str) -> str:
        self._started(f"{point}=kill").wait(120)
        return f"killed at {point}"

    def _stopped(self, point: str) -> str:
        process = self._started(f"{point}=stop")
        wait_until(lambda: process.poll() is not None or psutil.Process(process.pid).status() == "stopped", 120)
        if process.poll() is None:
            self.zombies.append(process)
        return f"stopped at {point}"

    def _server_killed(self) -> str:
        assert self.server is not None
        process = self._started("")
        threading.Event().wait(self.dice.random())  # at any moment of it: that is the fault
        self.server.kill()
        self.server.start()
        process.wait(180)
        return "server killed"

    def _server_frozen(self) -> str:
        assert self.server is not None
        process = self._started("")
        threading.Event().wait(self.dice.random())
        self.server.freeze()
        threading.Event().wait(1.0)
        self.server.freeze(False)
        process.wait(180)
        return "server frozen"

    def _answer_lost(self) -> str:
        assert self.link is not None
        self.link.loses = self.dice.randrange(1, 30)
        self._started("").wait(180)
        self.link.loses = 0
        return "answer lost"

    def _started(self, fault: str) -> subprocess.Popen:
        env = {**os.environ, "LAKEMARK_TEST_FAULT": fault} if fault else {**os.environ}
        told = subprocess.DEVNULL
        return subprocess.Popen([*COMMAND, *DELIVER], env=env, stdin=told, stdout=told, stderr=told)


@dataclass
class AttackedTogether(Attacked):
    """A stream whose sink moves with the lake. The faults befall its attempts; a zombie's batch has landed since, or it
    lands it itself when it wakes up."""

    given: list[Change] = field(default_factory=list)  # of the batch that comes

    def round(self) -> None:
        number = len(self.stream.changes)
        self.given = some(self.dice, number)
        self.states.append(self.stream.rows_with(self.given))
        self.fault(TOGETHER)
        if self.dice.random() < 0.3:  # a delivery looks in between: what is prepared it rolls back, or commits
            self.deliver()
        if self.dice.random() < 0.3:
            self.wake(0)
        wait_until(self._landed, 120)
        self.stream.settle(self.given)
        self.wake(self.dice.randrange(3))

    def end(self) -> None:
        super().end()
        assert isinstance(self.server, SinkServer) and self.server.prepared() == [], self.told

    def _landed(self) -> bool:
        try:
            attempt(self.stream.coordinator, len(self.stream.changes), self.given, uuid.uuid4().hex)
        except (RetryableError, OutcomeUnknownError):
            return False
        return True

    def _started(self, fault: str) -> subprocess.Popen:
        return process(len(self.stream.changes), self.given, uuid.uuid4().hex, fault, pipe=subprocess.DEVNULL)


@contextmanager
def attacked(kind: str, folder: Path, request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> Iterator[Attacked]:
    """Args: kind: of the sink."""
    dice, more = Random(f"sinks {kind}"), {"begin": "start"}
    kind, _, mode = kind.partition(" ")
    attacked_: type[Attacked] = AttackedTogether if mode else Attacked
    match kind:
        case "postgresql" | "mysql":
            more |= {"mode": mode} if mode else {}
            server: SinkServer = request.getfixturevalue({"postgresql": "postgres", "mysql": "maria"}[kind])
            server.clear()
            with lossy_link(server.port) as link:
                section = server.section(**more)
                section[kind]["port"] = link.port
                stream = Stream.of(folder, patch, app=section)
                create(stream.coordinator.pipeline, "app", needed(stream.coordinator.pipeline, "app"))
                yield attacked_(stream, server.held, dice, server, link)
        case "kafka":
            stack: Stack = request.getfixturevalue("stack")
            yield delivering_to(stack.broker.bootstrap_servers, stack.broker.bootstrap_servers, folder, patch, dice)
        case "broker":
            with sink_broker(folder / "broker") as broker:
                case = delivering_to(broker.by_link, broker.servers, folder, patch, dice)
                case.server, case.link = broker, broker.link
                yield case
        case _:
            out = folder / "out"
            stream = Stream.of(folder, patch, app={"files": {"path": str(out)}, **more})
            yield Attacked(stream, lambda: rows_in(out) if out.exists() else [], dice)


def delivering_to(servers: str, readers: str, folder: Path, patch: pytest.MonkeyPatch, dice: Random) -> Attacked:
    """A stream with a topic. Args: servers: as deliveries find them. readers: as readers do."""
    topic = Topic(readers, f"out-{os.getpid()}-{dice.randrange(10**6)}")
    place = {"bootstrap_servers": servers, "topic": topic.name, "transaction_seconds": 20}
    stream = Stream.of(folder, patch, app={"kafka": place, "begin": "start"})
    create(stream.coordinator.pipeline, "app", needed(stream.coordinator.pipeline, "app"))
    return Attacked(stream, topic.rows, dice)


@contextmanager
def watched(case: Attacked) -> Iterator[list[Any]]:
    """A reader that looks at the sink all the time; what it has seen that no batch has left there."""
    wrong: list[Any] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            try:
                rows = case.held()
            except Exception:  # the server is away
                continue
            if rows and rows not in case.states:
                wrong.append(rows)

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    try:
        yield wrong
    finally:
        ended.set()
        reader.join(60)


def run(case: Attacked, faults: int) -> None:
    try:
        with watched(case) as wrong:
            for _ in range(faults):
                case.round()
            case.end()
            assert case.held() == case.stream.rows, case.told
        assert wrong == [], case.told
    finally:
        for zombie in case.zombies:
            end(zombie)


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("kafka", 3),  # the others meet each of these faults in tests/local/delivery
        *(pytest.param(kind, FAULTS, marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_whatever_befalls_deliveries_the_sink_has_what_the_table_has(
    kind: str,
    faults: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "STILL_SECONDS", 1.0)
    with attacked(kind, tmp_path, request, monkeypatch) as case:
        run(case, faults)
