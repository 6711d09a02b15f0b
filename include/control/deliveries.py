"""Delivers what has landed at the commit point to the sinks outside of the lake. Needs no Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from include.delivery.contract import Delivery, WriteAheadSink
from include.delivery.net_changes import net_changes
from include.delivery.opening import taken
from include.lake.delta_tables import arrow_schema
from include.lake.ledger import Ledger
from include.lake.merge.snapshot import Snapshot
from include.lake.row_changes import RowChanges
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import sink_columns
from include.pipeline_file.tables import Tables
from include.protocol.deliveries import Commit, Fill, Follow, Leave, after, due, standing_at
from include.protocol.errors import LakemarkError, OutcomeUnknownError, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import Event
from include.protocol.ledger_state import LedgerState
from include.protocol.progress import Progress
from include.protocol.sink_shape import SinkShape, verify_goes_on
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
    def where(self) -> str:
        return f"{self.pipeline.name}, sink {self.name}"

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
        if self.standing.paused is not None:
            return None
        began = time.monotonic()
        done = Delivered(None)
        problem: LakemarkError | None = None
        try:
            for _ in range(_TRIES):
                try:
                    self._deliver(done, as_it_is)
                    break
                except OutcomeUnknownError as error:
                    problem = error
            else:
                assert problem is not None, "every try has failed"
                raise problem
        except LakemarkError as error:
            self._record(done, error)
            raise
        done.seconds = time.monotonic() - began
        self._record(done, None)
        return done

    def skip(self, reason: str, is_all: bool) -> Progress | None:
        """Moves the sink's progress over the next commit that it would get, and leaves its rows as they are. Returns
        where it stands then; None: nothing waits.

        Args:
            reason: as a person gave it, for the ledger. is_all: over all that there is so far, also where the sink
                cannot go on from where it stands.
        """
        done = Delivered(None)
        with taken(self.settings, self.pipeline, self.name) as sink:
            done.progress = sink.progress()
            if (target := self._target()) is None:
                return None
            if done.progress is not None and not is_all:
                self._verify_shape(done.progress)
            if is_all:
                now = standing_at(target.table_id, target.version, self._commits(target))
            else:
                match self._due(target, done.progress):
                    case Follow((first, *_)):
                        now = after(done.progress, target.table_id, first)
                    case Fill(now) | Leave(now):
                        pass
                    case _:
                        return None
            done.progress = self._put(sink, Delivery(done.progress, now), done)
        self._record(done, None, reason)
        return done.progress

    def lacks_commits(self) -> bool:
        """Whether the sink still has to get commits of batches, as far as the ledger knows. A sink that would get the
        table as it is needs none of them, and one that cannot go on gets none."""
        if (target := self._target()) is None:
            return False
        try:
            waiting = self._due(target, self.standing.progress)
        except TerminalError:
            return False
        return isinstance(waiting, Follow) and any(commit.batch is not None for commit in waiting.commits)

    def _deliver(self, done: Delivered, as_it_is: bool) -> None:
        with taken(self.settings, self.pipeline, self.name) as sink:
            done.progress = sink.progress()
            if done.progress is not None and not as_it_is:
                self._verify_shape(done.progress)
            while (target := self._target()) is not None:
                match self._all_of(target) if as_it_is else self._due(target, done.progress):
                    case Fill(now):
                        self._fill(sink, target, done, now)
                    case Leave(now):
                        done.progress = self._put(sink, Delivery(done.progress, now), done)
                    case Follow(commits):
                        if not self._follow(sink, target, done, commits):
                            return
                as_it_is = False

    def _follow(self, sink: WriteAheadSink, target: TableLog, done: Delivered, commits: tuple[Commit, ...]) -> bool:
        """Delivers commits, each in one transaction. False if there was none that a sink must know of."""
        if not commits:
            return False
        schema, columns = arrow_schema(target.table), sink_columns(self.pipeline, self.pipeline.sinks[self.name])
        before = done.deliveries
        for commit in commits:
            changes = RowChanges.between(target, commit.version - 1, commit.version, self._anew)
            if changes is None:
                raise self._gone(commit.version)
            if changes.is_empty and commit.batch is None:
                continue
            now = after(done.progress, target.table_id, commit)
            with net_changes(changes, columns, schema, self._seen) as net:
                done.progress = self._put(sink, Delivery(done.progress, now, net), done)
        return done.deliveries > before

    def _fill(self, sink: WriteAheadSink, target: TableLog, done: Delivered, now: Progress) -> None:
        table = Snapshot.at(target.uri, now.version)
        if table is None:
            raise self._gone(now.version)
        self.say(f"{self.where}: delivers the table as it is, {now.in_words}")
        columns = sink_columns(self.pipeline, self.pipeline.sinks[self.name])
        changes = RowChanges.whole(table, self._anew)
        with net_changes(changes, columns, table.schema, self._seen) as net:
            done.progress = self._put(sink, Delivery(done.progress, now, net, is_snapshot=True), done)

    def _put(self, sink: WriteAheadSink, delivery: Delivery, done: Delivered) -> Progress:
        delivery = replace(delivery, now=replace(delivery.now, shape=self._shape.dumps()))
        rows = sink.deliver(delivery)
        done.deliveries += 1
        done.rows += rows
        self.say(f"{self.where}: {rows:,} rows of {delivery.now.in_words}")
        return delivery.now

    def _verify_shape(self, progress: Progress) -> None:
        """Raises TerminalError: see `verify_goes_on`."""
        grows = not self.pipeline.sinks[self.name].columns
        verify_goes_on(progress.shape, self._shape, grows, where=self.where, anew=self._anew)

    @property
    def _anew(self) -> str:
        """How a person lets the sink begin anew."""
        pipeline, sink = self.pipeline.name, self.name
        return (
            f"`lakemark sinks deliver {pipeline} {sink} --snapshot` delivers the table as it is now, in place of what "
            f"the sink has; `lakemark sinks skip {pipeline} {sink} --all --reason ...` leaves the sink as it is, and "
            "goes on with what comes"
        )

    def _gone(self, version: int) -> TerminalError:
        return TerminalError(
            what="a commit that a sink still has to get is gone",
            where=self.where,
            expected=f"version {version} of the target",
            found="log clean-up has removed it",
            action=self._anew,
        )

    def _due(self, target: TableLog, progress: Progress | None) -> Follow | Fill | Leave:
        seen = progress.version if progress is not None and progress.table_id == target.table_id else -1
        return due(
            progress,
            target.table_id,
            target.version,
            self._commits(target),
            reaches_back=target.reaches_back_to(seen),
            begin=self.pipeline.sinks[self.name].begin,
            where=self.where,
            anew=self._anew,
        )

    def _all_of(self, target: TableLog) -> Fill:
        return Fill(standing_at(target.table_id, target.version, self._commits(target)))

    def _commits(self, target: TableLog) -> Iterator[Commit]:
        for entry in target.newest_entries(self.pipeline.name, None):
            metadata = entry.landed.metadata if entry.landed is not None else None
            if metadata is None:
                yield Commit(entry.version)
            else:
                yield Commit(entry.version, metadata.batch.key, metadata.attempt_id)

    def _target(self) -> TableLog | None:
        return TableLog.open(Catalog.of(self.pipeline).point.uri(self.settings))

    @property
    def _shape(self) -> SinkShape:
        sink = self.pipeline.sinks[self.name]
        columns = {column.name: ".".join(column.path) for column in sink_columns(self.pipeline, sink)}
        return SinkShape(sink.place.in_words, columns)

    @property
    def _seen(self) -> str:
        """SQL condition for the rows that readers should see."""
        return self.pipeline.seen_by_readers

    @property
    def _ledger(self) -> Ledger:
        return Ledger(Tables.of(self.settings, self.pipeline).ledger)

    def _record(self, done: Delivered, problem: LakemarkError | None, reason: str | None = None) -> None:
        """Tells the ledger. What it says is for people: if it cannot be written, this warns."""
        at = datetime.now(UTC).isoformat(timespec="seconds")

        def decide(state: LedgerState) -> list[Event]:
            known = state.sinks.get(self.name, SinkStanding())
            if problem is None and not done.deliveries and known.problem is None and known.progress == done.progress:
                return []
            progress = done.progress or known.progress
            standing = delivered(known, progress, at) if done.deliveries else known
            standing = replace(standing, progress=progress, problem=None if problem is None else str(problem))
            return [SinkTold(state.generation, self.name, standing, told_by=self.by, reason=reason, rows=done.rows)]

        try:
            self._ledger.append(decide, about=None)
        except LakemarkError as error:
            log.warning("%s: the ledger does not know how far it is: %s", self.where, error)
