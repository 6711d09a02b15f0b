"""Makes a commit of the target together with the sinks that move with the lake (`mode: two_phase`).

The lake decides. Each sink prepares the commit's changes; then the commit is made; then each sink commits what it has
prepared. Whatever breaks in between, `Deliverer.end_prepared` ends it as the lake's log says, by whoever comes next:
the next attempt, or the next delivery. An attempt that wakes up after somebody has rolled its transactions back may
still make its commit; the sinks then get it from the log, as sinks that follow do.

Source: Gray and Lamport, "Consensus on Transaction Commit", 2006, section 2 (two-phase commit).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from include.control.deliveries import Delivered, Deliverer, Say
from include.delivery.contract import Delivery, TwoPhaseSink
from include.delivery.opening import taken
from include.fault_points import fault_point
from include.lake.log_tail import commit_id
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.deliveries import AGAIN, Commit, after, verify_lacks
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared
from include.settings import Settings


@dataclass
class _Ready:
    """A sink that has prepared a commit's changes."""

    deliverer: Deliverer
    sink: TwoPhaseSink
    now: Progress  # where it stands once it has them
    rows: int  # that they change
    done: Delivered


@dataclass(frozen=True)
class TwoPhase:
    """The sinks that move with one batch's commit. Those that are paused do not: they follow later.

    Args:
        target: the table. batch, attempt_id: whose commit it is. by: who asks, for the ledger.
    """

    settings: Settings
    pipeline: Pipeline
    target: LakeUri
    batch: Batch
    attempt_id: str
    by: str
    say: Say = field(repr=False)

    def get_ready(self) -> None:
        """Ends what earlier attempts have prepared, and delivers what a sink still lacks.

        Raises:
            RetryableError, TerminalError: see `Deliverer.deliver`. Nothing of the batch has landed.
        """
        for deliverer in self._sinks:
            with self._advised(deliverer.name):
                deliverer.deliver()

    def create(self, version: int, content: bytes, succeeds: str | None) -> bool:
        """Makes the commit (see `LogStore.create`) together with the sinks.

        Raises:
            RetryableError, TerminalError: a sink does not take it; nothing has landed. OSError: the commit may be there
                or not, and the sinks with it.
        """
        [said] = [action["commitInfo"] for action in map(json.loads, content.splitlines()) if "commitInfo" in action]
        prepared = Prepared(version, said["txnId"])
        with ExitStack() as stack:
            ready: list[_Ready] = []
            try:
                for deliverer in self._sinks:
                    sink = stack.enter_context(taken(self.settings, self.pipeline, deliverer.name))
                    assert isinstance(sink, TwoPhaseSink), "the pipeline file was checked"
                    with self._advised(deliverer.name):
                        one = self._prepare(deliverer, sink, content=content, prepared=prepared)
                    if one is None:
                        self._roll_back(ready, prepared)
                        return False
                    ready.append(one)
                    fault_point("sink.prepared")
            except BaseException:
                self._roll_back(ready, prepared)
                raise
            landed = self._made(content, succeeds, prepared)
            fault_point("sink.landed")
            if landed:
                for one in ready:
                    self._commit(one, prepared)
            else:
                self._roll_back(ready, prepared)
        return landed

    @contextmanager
    def _advised(self, sink: str) -> Iterator[None]:
        """What a sink refuses stops the pipeline: the error says how it goes on without that sink."""
        try:
            yield
        except (RetryableError, TerminalError) as error:
            name = self.pipeline.name
            more = (
                f"`lakemark sinks pause {name} {sink} --reason ...` lets the pipeline go on without it, and after "
                f"`lakemark sinks resume {name} {sink} --reason ...` it gets what it lacks (in between, "
                f"`lakemark sinks skip {name} {sink} --reason ...` leaves a batch out)"
            )
            kind = TerminalError if isinstance(error, TerminalError) else RetryableError
            raise kind(**{**error.parts(), "action": f"{error.action}; or {more}"}) from error

    @property
    def _sinks(self) -> list[Deliverer]:
        found = [
            Deliverer(self.settings, self.pipeline, name, self.by, say=self.say)
            for name, sink in self.pipeline.sinks.items()
            if sink.mode == "two_phase"
        ]
        return [deliverer for deliverer in found if deliverer.standing.paused is None]

    def _prepare(self, deliverer: Deliverer, sink: TwoPhaseSink, content: bytes, prepared: Prepared) -> _Ready | None:
        """None: another writer has made the version."""
        done = Delivered(None)
        deliverer.bring_up(sink, done)
        target = deliverer.feed.target()
        if target is None or target.version != prepared.version - 1:
            return None
        verify_lacks(done.progress, self.batch.key, where=deliverer.feed.where, anew=deliverer.feed.anew)
        commit = Commit(prepared.version, self.batch.key, self.attempt_id, deliver=self.batch.deliver or AGAIN)
        now = deliverer.feed.shaped(after(done.progress, target.table_id, commit))
        with deliverer.feed.rows_of(target, commit, done.progress, content) as rows, deliverer.asking():
            changed = sink.prepare(Delivery(done.progress, now, rows), prepared)
        return _Ready(deliverer, sink, now=now, rows=changed, done=done)

    def _made(self, content: bytes, succeeds: str | None, prepared: Prepared) -> bool:
        try:
            return log_store_of(self.target).create(prepared.version, content, succeeds)
        except OSError:
            with suppress(LakemarkError):  # a log that cannot be read tells nothing
                if (found := commit_id(self.target, prepared.version)) is not None:
                    return prepared.has_landed(found)
            raise

    def _commit(self, one: _Ready, prepared: Prepared) -> None:
        """The batch has landed: what fails here fails nothing, and is ended by whoever comes next."""
        where = one.deliverer.feed.where
        try:
            with one.deliverer.asking():
                has_ended = one.sink.end(prepared, commits=True)
            if has_ended:
                one.deliverer.told(one.now, one.rows, one.done)
            else:
                self.say(f"{where}: somebody else has ended the prepared transaction {prepared.name()}")
                one.deliverer.bring_up(one.sink, one.done)
            one.deliverer.record(one.done, None)
        except LakemarkError as error:
            self.say(f"{where}: the batch has landed, and the sink gets it with the next delivery: {error}")
            one.deliverer.record(one.done, error)

    def _roll_back(self, ready: Sequence[_Ready], prepared: Prepared) -> None:
        """Nothing has landed: what stays prepared is rolled back by whoever comes next."""
        for one in ready:
            with suppress(LakemarkError), one.deliverer.asking():
                one.sink.end(prepared, commits=False)
