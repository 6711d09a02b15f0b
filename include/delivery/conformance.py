"""`lakemark sinks test`: does a class of a user's own keep what exactly once asks of it?

It deals made-up batches to the class, each by a process of its own, and kills or stops many of them. After each, a new
object of the class says where the sink stands, and what it holds if it can. So it finds a class that keeps rows and
progress apart, that does not compare before it writes, or that a process from before can still change. What a class of
two phases has prepared is committed or rolled back, as the dice say: somebody else's commit decides it in earnest.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, TypeVar

import psutil

from include.delivery.made_up import SIGNALS, DeadlyBatch, Given, State
from include.delivery.user_class import Overtaken, UserBatch, UserClass, has_two_phases, made
from include.pipeline_file.sinks import UserClass as PlaceOfClass
from include.protocol.json_data import JsonObject
from include.settings import PROJECT_ROOT, Settings

PIPELINE = "lakemark_test"  # whose sink it is meanwhile: what the class keeps for others is not touched
_KEYS, _ROWS = 200, 60
_SECONDS = 60.0  # for one delivery
_START, _ROWS_READ, _END = "killed at its start", "killed once it had read the rows", "killed at its end"
_FAULTS = ("none", _START, "killed", "stopped", _ROWS_READ, _END)
T = TypeVar("T")
Say = Callable[[str], None]


@dataclass
class Conformance:
    """One run.

    Args:
        rounds: batches that are dealt. say: is told how far it is.
    """

    settings: Settings
    place: PlaceOfClass
    name: str  # the sink's
    rounds: int
    dice: Random
    say: Say
    findings: list[str] = field(default_factory=list)
    faults: int = 0
    _zombies: list[tuple[Given, subprocess.Popen[bytes]]] = field(default_factory=list)

    def run(self) -> None:
        """Fills `findings`. Raises TerminalError: there is no such class, or it cannot be made."""
        state: State = {}
        try:
            if (found := self._ask(lambda sink: sink.progress())) is not None:
                told = f"the sink has batches of an earlier test: remove what it keeps for {PIPELINE}"
                self.findings.append(f"{told}; it says {found}")
                return
            for number in range(self.rounds):
                given = self._given(number, state)
                self._verify_compares(given)
                self._deal(given)
                state = given.after
                self._wake(given)
                if self.findings:
                    return
                self.say(f"{number + 1} of {self.rounds} batches, {self.faults} faults")
        except _Raises as error:
            self.findings.append(str(error))
        finally:
            for _, zombie in self._zombies:
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(zombie.pid).kill()

    @property
    def can_be_read(self) -> bool:
        """Whether the class says what it holds."""
        return self._ask(lambda sink: hasattr(sink, "read"))

    def _given(self, number: int, state: State) -> Given:
        keys = self.dice.sample(range(_KEYS), _ROWS)
        written = {key: f"batch {number} row {key} {self.dice.random()}" for key in keys[: _ROWS // 2]}
        removed = tuple(key for key in keys[_ROWS // 2 :] if key in state)
        return Given(number, written, removed, dict(state), is_snapshot=number % 10 == 9)

    def _deal(self, given: Given) -> None:
        """Deals a batch until the sink has it. Most tries meet a fault; the fifth one does not."""
        for turn in range(5):
            fault = self.dice.choice(self._kinds_of_faults) if turn < 4 else "none"
            self.faults += fault != "none"
            said = self._tried(given, fault)
            if fault in SIGNALS:
                self._verify_waits(given)
            if self._look(given, f"after a process that was {fault}" if fault != "none" else "after a delivery"):
                return
            if self.findings:
                return
        told = f"a delivery that nothing has disturbed leaves no progress{f': {said}' if said else ''}"
        self.findings.append(f"batch {given.number}: {told}")

    def _tried(self, given: Given, fault: str) -> str:
        """One process that delivers the batch; the fault comes at any moment. Returns the last line of its errors."""
        with tempfile.TemporaryFile() as errors:
            self._try(given, fault, errors)
            errors.seek(0)
            return next(reversed(errors.read().decode(errors="replace").strip().splitlines()), "")

    def _try(self, given: Given, fault: str, errors: IO[bytes]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "include.delivery.conformance", self._told(given, fault)],
            env={**os.environ, **self.settings.child_environment()},
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        process.stdout.readline()  # it begins to deliver
        if fault in ("killed", "stopped"):
            time.sleep(self.dice.random() * 0.05)
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        if fault.startswith("stopped") and self._has_stopped(process):
            self._zombies.append((given, process))
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS)
            return
        process.kill()
        self.findings.append(f"batch {given.number}: a delivery has not ended within {_SECONDS:.0f} s")

    @property
    def _kinds_of_faults(self) -> tuple[str, ...]:
        return (*_FAULTS, *SIGNALS) if self._ask(has_two_phases) else _FAULTS

    @staticmethod
    def _has_stopped(process: subprocess.Popen[bytes]) -> bool:
        """Whether it has, and not ended before."""
        deadline = time.monotonic() + _SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
                    return True
            time.sleep(0.01)
        return False

    def _verify_waits(self, given: Given) -> None:
        """What is prepared has no effect yet, and is there."""
        if self._ask(lambda sink: sink.progress()) == given.texts[1]:
            self.findings.append(f"batch {given.number} was prepared and not committed, and has taken effect")
        elif (held := self._ask(_rows)) is not None and held != given.before:
            self.findings.append(f"batch {given.number} was prepared and not committed, and readers see rows of it")
        elif not self._ask(lambda sink: sink.recover() if has_two_phases(sink) else []):
            self.findings.append(f"batch {given.number} was prepared, and `recover` does not name it")

    def _end_prepared(self, sink: UserClass) -> None:
        """Ends what processes have prepared that were killed or stopped, either way."""
        if not has_two_phases(sink):
            return
        for name in sink.recover():
            commits = self.dice.random() < 0.5
            end = sink.commit if commits else sink.abort
            did = "commit" if commits else "abort"
            found = end(name)
            if not isinstance(found, bool):
                self.findings.append(f"`{did}` returned {found!r}: it has to say True or False")
            if name in sink.recover():
                self.findings.append(f"`{did}` has ended a transaction, and `recover` still names it")
            if commits and found:
                end(name)  # as after an answer that was lost: it changes nothing more

    def _told(self, given: Given, fault: str) -> str:
        told: JsonObject = {
            "place": self.place.model_dump(by_alias=True),
            "sink": self.name,
            "given": [given.number, list(given.written.items()), given.removed, given.is_snapshot],
            "fault": fault,
        }
        return json.dumps(told)

    def _look(self, given: Given, when: str) -> bool:
        """Whether the sink has the batch, by a new object of the class; the rows must say the same."""
        self._ask(self._end_prepared)
        found = self._ask(lambda sink: sink.progress())
        before, after = given.texts
        if found not in (before, after):
            told = f"neither what came before batch {given.number} nor it"
            self.findings.append(f"{when}, `progress` says {found}, {told}")
            return False
        held = self._ask(_rows)
        right = given.after if found == after else given.before
        if held is not None and held != right:
            wrong = sum(held.get(key) != right.get(key) for key in {*held, *right})
            there = "there" if found == after else "not there"
            self.findings.append(
                f"{when}, `progress` says that batch {given.number} is {there}, and {wrong} rows are otherwise: rows "
                "and progress do not move together"
            )
        return found == after

    def _verify_compares(self, given: Given) -> None:
        """A batch for another progress than the sink's must change nothing."""

        def deal(sink: UserClass) -> bool:
            try:
                given.deliver(sink, "another progress")
            except Overtaken:
                return True
            return False

        if not self._ask(deal):
            told = "a batch whose `after` is not the sink's progress was taken"
            self.findings.append(f"{told}: `deliver` does not compare")
        elif self._ask(lambda sink: sink.progress()) != given.texts[0]:
            self.findings.append("a batch that was refused by Overtaken has changed the progress")

    def _wake(self, newest: Given) -> None:
        """Lets processes go on that were stopped before later batches: they must change nothing any more."""
        while self._zombies and self.dice.random() < 0.7:
            given, zombie = self._zombies.pop(0)
            zombie.send_signal(signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                zombie.wait(_SECONDS)
            self._look(newest, f"after a process of batch {given.number} that was stopped, and woke up,")

    def _ask(self, what: Callable[[UserClass], T]) -> T:
        """Asks a new object of the class."""
        sink = made(self.settings, self.place, PIPELINE, self.name)
        try:
            return what(sink)
        except Exception as error:
            raise _Raises(f"the class raises {type(error).__name__}: {error} ({_place_of(error)})") from error
        finally:
            with suppress(Exception):  # whatever it says then fails no delivery
                sink.close()


class _Raises(Exception):
    """What a class raises where it has to answer."""


def _place_of(error: Exception) -> str:
    """The line of the class that an error comes from, or that has called what it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(str(PROJECT_ROOT / "include" / "delivery"))]
    frame = (own or frames)[0]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def _rows(sink: UserClass) -> State | None:
    """What the sink holds; None: it does not say."""
    read: Callable[[], Iterable[Mapping[str, object]]] | None = getattr(sink, "read", None)
    return None if read is None else {int(str(row["id"])): str(row["text"]) for row in read()}


def main(told: str) -> None:
    """Deals one batch, for `Conformance._tried`."""
    given = json.loads(told)
    number, written, removed, is_snapshot = given["given"]
    batch = Given(number, dict(written), tuple(removed), before={}, is_snapshot=is_snapshot)
    sink = made(Settings.from_environment(), PlaceOfClass.model_validate(given["place"]), PIPELINE, given["sink"])
    if given["fault"] == _START:
        os.kill(os.getpid(), signal.SIGKILL)
    print("delivers", flush=True)
    with suppress(Overtaken):
        kind = DeadlyBatch if given["fault"] == _ROWS_READ else UserBatch
        batch.deliver(sink, batch.texts[0], kind, fault=given["fault"])
    if given["fault"] == _END:
        os.kill(os.getpid(), signal.SIGKILL)
    sink.close()


if __name__ == "__main__":
    main(sys.argv[1])
