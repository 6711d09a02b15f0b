"""Drains a group of pipelines with a few workers. `include.protocol.draining` decides, and this does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from include.jobs.report import JobReport
from include.protocol.draining import SILENCE_SECONDS, TURN_SECONDS, Due, Turns
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.protocol.json_data import JsonObject

_LOOK_SECONDS = 0.03


class Worker(Protocol):
    """See `include.jobs.member_worker`."""

    def give(self, member: str, variables: Mapping[str, str]) -> None: ...
    def facts(self) -> list[JsonObject]: ...
    def logged(self) -> list[str]: ...
    def ending(self) -> str | None: ...
    def dismiss(self) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True)
class Ended:
    """What a member's turn came to."""

    member: str
    results: Sequence[JsonObject]  # of every batch, as `include.jobs.runner.run_job` returns them
    error: LakemarkError | None  # why it did not come to its end


class _Turn(NamedTuple):
    worker: Worker
    report: JobReport


@dataclass
class Drain:
    """One run of a group.

    Args:
        start: starts a worker. has_code: whether a member brings code of its own into the job, which no other member
            may meet: it gets a worker for itself. variables: of the environment, for a member's turn. listen, log: get
            a member's name, and a line of its journal or of its log. suspects: of a run that gives up, the members
            that have failed, or were waiting for another system.
    """

    start: Callable[[], Worker]
    has_code: Callable[[str], bool]
    variables: Callable[[str], Mapping[str, str]]
    listen: Callable[[str, JsonObject], None]
    log: Callable[[str, str], None]
    suspects: list[str] = field(default_factory=list)
    _turns: dict[str, _Turn] = field(default_factory=dict)
    _idle: list[Worker] = field(default_factory=list)

    def run(self, due: Sequence[Due]) -> Iterator[Ended]:
        """Gives each member its turn, and yields what came of it.

        Raises:
            RetryableError: nothing but what may pass came of the first turns, and nobody is at work any more who may do
                better. The error is that of the last one.
        """
        turns, error = Turns(list(due)), None
        try:
            while not turns.is_over:
                while (member := turns.begin(time.monotonic())) is not None:
                    self._begin(member)
                now = time.monotonic()  # before a worker that is let go may take some time
                ended = [*self._ended(turns)]
                ended += [self._too_late(one, turns) for one in turns.overdue(now) if one in self._turns]
                for one in ended:
                    may_pass = one.error is not None and not isinstance(one.error, TerminalError)
                    turns.end(one.member, one.error is None, may_pass)
                    if may_pass:
                        error = one.error
                        self.suspects.append(one.member)
                    yield one
                if error is not None and turns.is_shared_trouble(time.monotonic()):
                    self.suspects.extend(turns.asks)
                    raise error
                if not ended:
                    time.sleep(_LOOK_SECONDS)
            for worker in self._idle:
                worker.dismiss()
        finally:
            for worker in (*self._idle, *(turn.worker for turn in self._turns.values())):
                worker.end()

    def _begin(self, member: str) -> None:
        worker = self.start() if self.has_code(member) else self._free()
        report = JobReport(
            f"{member} --whole-run", lambda fact: self.listen(member, fact), lambda line: self.log(member, line)
        )
        self._turns[member] = _Turn(worker, report)
        worker.give(member, self.variables(member))

    def _free(self) -> Worker:
        """A worker that has nothing to do, and lives."""
        while self._idle:
            worker = self._idle.pop()
            if worker.ending() is None:
                return worker
            worker.end()
        return self.start()

    def _ended(self, turns: Turns) -> Iterator[Ended]:
        for member, turn in [*self._turns.items()]:
            ending = turn.worker.ending()  # before its lines: these are all, then
            is_over = self._take(member, turn, turns)
            if is_over or ending is not None:
                yield self._end(member, ending if not is_over else None)

    def _take(self, member: str, turn: _Turn, turns: Turns) -> bool:
        """Takes what a worker has said since the last look. Returns whether the turn is over."""
        is_over = False
        for fact in turn.worker.facts():
            if "ended" in fact:
                is_over = True
            elif "asks" in fact:
                turns.ask(member, fact["asks"], time.monotonic())
            else:
                turn.report.took({name: value for name, value in fact.items() if name != "member"})
        for line in turn.worker.logged():
            turn.report.logged(line)
        return is_over

    def _end(self, member: str, ending: str | None) -> Ended:
        turn = self._turns.pop(member)
        if ending is None and not self.has_code(member):
            self._idle.append(turn.worker)
        else:
            if ending is None:
                turn.worker.dismiss()
            turn.worker.end()
        error = None
        try:
            turn.report.results(ending)
        except LakemarkError as failure:
            error = failure
        return Ended(member, turn.report.so_far, error)

    def _too_late(self, member: str, turns: Turns) -> Ended:
        turn, question = self._turns.pop(member), turns.asks.get(member)
        self._take(member, turn, turns)
        turn.worker.end()
        error = _lasted_too_long(member) if question is None else _waited_too_long(member, question.system)
        return Ended(member, turn.report.so_far, error)


def _lasted_too_long(member: str) -> RetryableError:
    return RetryableError(
        what="the turn of this pipeline in its group lasted too long, and was ended",
        where=member,
        expected=f"at most {TURN_SECONDS:.0f} s",
        found="it goes on",
        action="nothing by hand: it is tried again by itself",
    )


def _waited_too_long(member: str, system: str) -> RetryableError:
    return RetryableError(
        what="another system did not answer this pipeline in its turn, and the turn was ended",
        where=member,
        expected=f"an answer within {SILENCE_SECONDS:.0f} s",
        found=f"it waits for {system}",
        action="check that it is up; the turn is tried again by itself",
    )
