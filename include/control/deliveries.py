"""Delivers what has landed at the commit point to the sinks outside of the lake. Needs no Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from include.control.followed import Followed
from include.control.sink_feed import SinkFeed
from include.delivery.contract import Delivery, TwoPhaseSink, WriteAheadSink
from include.delivery.opening import taken
from include.lake.ledger import Ledger
from include.outside import asking
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.deliveries import SKIP, Commit, Fill, Follow, Leave, after
from include.protocol.errors import LakemarkError, OutcomeUnknownError, ProgressUnreadable, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import Event
from include.protocol.ledger_state import LedgerState
from include.protocol.progress import Progress
from include.protocol.sinks import SinkStanding, SinkTold, delivered
from include.settings import Settings

log = logging.getLogger(__name__)
_TRIES = 3  # after lost answers: each time the sink says what it has
Say = Callable[[str], None]


@dataclass
class Delivered:
    """What one call has brought to a sink."""

    progress: Progress | None
    deliveries: int = 0
    rows: int = 0
    seconds: float = 0.0

    def to_json(self) -> JsonObject:
        return {**asdict(self), "progress": self.progress and self.progress.to_json()}


@dataclass(frozen=True)
class Deliverer:
    """Delivers to one sink of a pipeline.

    Args:
        name: the sink's in the pipeline file. by: who asks, for the ledger.
    """

    settings: Settings
    pipeline: Pipeline
    name: str
    by: str = "cli"
    say: Say = field(default=log.info)

    @property
    def feed(self) -> SinkFeed:
        """What the lake has for the sink."""
        return SinkFeed(self.settings, self.pipeline, self.name, self.say)

    @property
    def standing(self) -> SinkStanding:
        """What the ledger knows of the sink."""
        return self._ledger.recent().sinks.get(self.name, SinkStanding())

    def deliver(self, as_it_is: bool = False) -> Delivered | None:
        """Delivers all that is due, one commit of the target after the other, and records in the ledger how far the
        sink is. None: the sink is paused.

        Args:
            as_it_is: first delivers the table as it is, in place of whatever the sink has.

        Raises:
            RetryableError: the sink does not answer; what was delivered before is there. TerminalError: it refuses a
                delivery, or cannot go on from where it stands.
        """
        if as_it_is:
            self.feed.verify_has_snapshot()
        if self.standing.paused is not None:
            self._let_go()
            return None
        began = time.monotonic()
        done = Delivered(None)
        problem: LakemarkError | None = None
        try:
            for _ in range(_TRIES):
                try:
                    with taken(self.settings, self.pipeline, self.name) as sink:
                        self.bring_up(sink, done, as_it_is)
                    break
                except OutcomeUnknownError as error:
                    problem = error
            else:
                assert problem is not None, "every try has failed"
                raise problem
        except LakemarkError as error:
            self.record(done, error)
            raise
        done.seconds = time.monotonic() - began
        self.record(done, None)
        return done

    def _let_go(self) -> None:
        """Ends what attempts have prepared at a sink that is paused, if it answers: else its rows stay locked."""
        if not self._prepares:
            return
        try:
            with taken(self.settings, self.pipeline, self.name) as sink:
                self.end_prepared(sink, Delivered(None))
        except LakemarkError as error:
            self.say(f"{self.feed.where}: it is paused, and what it may have prepared could not be ended: {error}")

    def skip(self, reason: str, is_all: bool) -> Progress | None:
        """Moves the sink's progress over the next commit that it would get, and leaves its rows as they are. Returns
        where it stands then; None: nothing waits.

        Args:
            reason: as a person gave it, for the ledger. is_all: over all that there is so far, also where the sink
                cannot go on from where it stands.
        """
        done = Delivered(None)
        with taken(self.settings, self.pipeline, self.name) as sink:
            self.end_prepared(sink, done)
            done.progress = self._progress(sink, anew=is_all)
            if (target := self.feed.target()) is None:
                return None
            if done.progress is not None and not is_all:
                self.feed.verify_shape(done.progress)
            if is_all:
                now = self.feed.all_of(target).now
            else:
                match self.feed.due(target, done.progress):
                    case Follow(()):
                        return None
                    case Follow(commits):
                        now = self._past_the_next(target, commits, done.progress)
                    case Fill(now) | Leave(now):
                        pass
            self._put(sink, Delivery(done.progress, now), done)
        self.record(done, None, reason)
        return done.progress

    def _past_the_next(self, target: Followed, commits: tuple[Commit, ...], progress: Progress | None) -> Progress:
        """Where the sink stands after the first of these commits that it would get something of, or that it refuses."""
        assert commits, "the caller has looked"
        for commit in commits:
            would_get = True  # also what is refused, or gone
            with suppress(LakemarkError), self.feed.rows_of(target, commit, progress) as rows:
                would_get = rows is not None
            progress = after(progress, target.table_id, commit)
            if would_get:
                break
        assert progress is not None, "it is that of a commit"
        return progress

    def lacks_commits(self) -> bool:
        """Whether the sink still has to get commits of batches, as far as the ledger knows. A sink that would get the
        table as it is needs none of them, and one that cannot go on gets none."""
        if (target := self.feed.target()) is None:
            return False
        try:
            waiting = self.feed.due(target, self.standing.progress)
        except TerminalError:
            return False
        return isinstance(waiting, Follow) and any(commit.batch is not None for commit in waiting.commits)

    def bring_up(self, sink: WriteAheadSink, done: Delivered, as_it_is: bool = False) -> None:
        """Delivers all that is due to a sink that was taken. Args: as_it_is: see `deliver`. Raises as `deliver`, and
        OutcomeUnknownError."""
        self.end_prepared(sink, done)
        done.progress = self._progress(sink, anew=as_it_is)
        if done.progress is not None and not as_it_is:
            self.feed.verify_shape(done.progress)
        while (target := self.feed.target()) is not None:
            match self.feed.all_of(target) if as_it_is else self.feed.due(target, done.progress):
                case Fill(now):
                    self._fill(sink, target, done, now)
                case Leave(now):
                    self._put(sink, Delivery(done.progress, now), done)
                case Follow(commits):
                    if not self._follow(sink, target, done, commits):
                        return
            as_it_is = False

    def _progress(self, sink: WriteAheadSink, anew: bool) -> Progress | None:
        """Where a sink stands. Args: anew: it shall begin anew, whatever its progress says."""
        try:
            with self.asking():
                return sink.progress()
        except ProgressUnreadable as error:
            if anew:
                return None
            raise ProgressUnreadable(**{**error.parts(), "action": self.feed.anew}) from error

    def end_prepared(self, sink: WriteAheadSink, done: Delivered) -> None:
        """Ends whatever earlier attempts have prepared at a sink that was taken, as the lake's log says. If it changes
        afterwards, since such an attempt goes on and its commit lands, the sink gets that commit from the log."""
        if not isinstance(sink, TwoPhaseSink):
            return
        with self.asking():
            found = sink.pending()
        for pending in found:
            commits = self.feed.has_landed(pending)
            with self.asking():
                has_ended = sink.end(pending.prepared, commits)
            if has_ended:
                done.deliveries += commits
                did, so = ("committed", "is") if commits else ("rolled back", "is not")
                why = f"the commit that it was prepared for {so} in the lake"
                self.say(f"{self.feed.where}: {did} {pending.transaction}: {why}")

    def _follow(self, sink: WriteAheadSink, target: Followed, done: Delivered, commits: tuple[Commit, ...]) -> bool:
        """Delivers commits, each in one transaction. False if there was none that a sink must know of."""
        before = done.deliveries
        for commit in commits:
            with self.feed.rows_of(target, commit, done.progress) as rows:
                if rows is not None or commit.batch is not None or commit.deliver == SKIP:
                    self._put(sink, Delivery(done.progress, after(done.progress, target.table_id, commit), rows), done)
        return done.deliveries > before

    def _fill(self, sink: WriteAheadSink, target: Followed, done: Delivered, now: Progress) -> None:
        self.say(f"{self.feed.where}: delivers the table as it is, {now.in_words}")
        with self.feed.rows_at(target, now.version) as rows:
            self._put(sink, Delivery(done.progress, now, rows, is_snapshot=True), done)

    def _put(self, sink: WriteAheadSink, delivery: Delivery, done: Delivered) -> None:
        delivery = replace(delivery, now=self.feed.shaped(delivery.now))
        with self.asking():
            rows = sink.deliver(delivery)
        self.told(delivery.now, rows, done)

    def told(self, now: Progress, rows: int, done: Delivered) -> None:
        """Counts a delivery that has taken effect, and says so. Args: rows: that it has changed."""
        done.progress = now
        done.deliveries += 1
        done.rows += rows
        self.say(f"{self.feed.where}: {rows:,} rows of {now.in_words}")

    def asking(self) -> AbstractContextManager[None]:
        """Whoever calls the sink waits for its system."""
        return asking(f"the sink {self.name}")

    @property
    def _prepares(self) -> bool:
        return self.pipeline.sinks[self.name].mode == "two_phase"

    @property
    def _ledger(self) -> Ledger:
        return Ledger(Tables.of(self.settings, self.pipeline).ledger)

    def record(self, done: Delivered, problem: LakemarkError | None, reason: str | None = None) -> None:
        """Tells the ledger. What it says is for people: if it cannot be written, this warns."""
        at = datetime.now(UTC).isoformat(timespec="seconds")

        def decide(state: LedgerState) -> list[Event]:
            known = state.sinks.get(self.name, SinkStanding())
            is_known = known.problem is None and known.progress == done.progress and known.prepares == self._prepares
            if problem is None and not done.deliveries and is_known:
                return []
            progress = done.progress or known.progress
            standing = delivered(known, progress, at) if done.deliveries else known
            told = None if problem is None else str(problem)
            standing = replace(standing, progress=progress, problem=told, prepares=self._prepares)
            return [SinkTold(state.generation, self.name, standing, told_by=self.by, reason=reason, rows=done.rows)]

        try:
            self._ledger.append(decide, about=None)
        except LakemarkError as error:
            log.warning("%s: the ledger does not know how far it is: %s", self.feed.where, error)
