"""What the lake has for one sink: where the target stands, what is due, and the rows of it. It asks no sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from include.control.followed import Followed
from include.delivery.contract import Pending
from include.delivery.net_changes import NetChanges, logged_changes, net_changes
from include.delivery.pace import Pace
from include.lake.delta_tables import arrow_schema
from include.lake.log_tail import commit_id
from include.lake.merge.snapshot import Snapshot
from include.lake.row_changes import RowChanges
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.outbox import change_order
from include.participants.outbox import outbox as outbox_of
from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import SinkColumn, sink_columns
from include.pipeline_file.sinks import Sink
from include.pipeline_file.tables import table_uri
from include.protocol.deliveries import REFUSE, SKIP, Commit, Fill, Follow, Leave, due, refused, standing_at
from include.protocol.errors import TerminalError
from include.protocol.progress import Progress
from include.protocol.sink_shape import SinkShape, verify_goes_on
from include.settings import Settings


@dataclass(frozen=True)
class SinkFeed:
    """Args: name: the sink's in the pipeline file. say: tells how far a long delivery is."""

    settings: Settings
    pipeline: Pipeline
    name: str
    say: Callable[[str], None] = field(default=logging.getLogger(__name__).debug, repr=False)

    @property
    def where(self) -> str:
        return f"{self.pipeline.name}, sink {self.name}"

    @property
    def anew(self) -> str:
        """How a person lets the sink begin anew."""
        pipeline, sink = self.pipeline.name, self.name
        if self._section.what == "changes":
            return f"`lakemark sinks skip {pipeline} {sink} --all --reason ...` goes on with what comes"
        return (
            f"`lakemark sinks deliver {pipeline} {sink} --snapshot` delivers the table as it is now, in place of what "
            f"the sink has; `lakemark sinks skip {pipeline} {sink} --all --reason ...` leaves the sink as it is, and "
            "goes on with what comes"
        )

    def target(self) -> Followed | None:
        """The table that the sink follows, as it is now; None: nothing has landed there yet. Raises TableDamaged."""
        if (point := TableLog.open(self._uri)) is None:
            return None
        name = self.pipeline.name
        if (route := self._section.route) is None:
            return Followed.point(point, name)
        log = TableLog.open(table_uri(self.settings, route))
        return None if log is None else Followed.route(point, log, name, route)

    def has_landed(self, pending: Pending) -> bool:
        """Whether the target's log holds the commit that a transaction was prepared for. Raises TableDamaged."""
        return pending.prepared.has_landed(commit_id(self._uri, pending.prepared.version))

    def verify_has_snapshot(self) -> None:
        """Raises TerminalError: the sink gets changes, of which there is none."""
        if self._section.what == "changes":
            raise TerminalError(
                what="there is no snapshot of changes",
                where=self.where,
                expected="`what: rows`",
                found="`what: changes`",
                action=f"`lakemark sinks deliver {self.pipeline.name} {self.name}` delivers the changes that wait",
            )

    def due(self, target: Followed, progress: Progress | None) -> Follow | Fill | Leave:
        """What the sink still has to get. Args: progress: where it stands. Raises TerminalError: see `due`."""
        seen = progress.version if progress is not None and progress.table_id == target.table_id else -1
        return due(
            progress,
            target.table_id,
            target.version,
            target.commits(),
            reaches_back=target.log.reaches_back_to(seen),
            begin=self._section.begins,
            where=self.where,
            anew=self.anew,
        )

    def all_of(self, target: Followed) -> Fill:
        """The whole table, as it is. Also where a sink stands that gets nothing of it."""
        return Fill(standing_at(target.table_id, target.version, target.commits()))

    def verify_shape(self, progress: Progress) -> None:
        """Raises TerminalError: see `verify_goes_on`."""
        grows = not self._section.columns
        verify_goes_on(progress.shape, self._shape, grows, where=self.where, anew=self.anew)

    def shaped(self, progress: Progress) -> Progress:
        """A progress that says in which shape the sink's rows are."""
        return replace(progress, shape=self._shape.dumps())

    @contextmanager
    def rows_of(
        self, target: Followed, commit: Commit, found: Progress | None, content: bytes | None = None
    ) -> Iterator[NetChanges | None]:
        """What the sink gets of a commit, for as long as the context lasts; None: no row.

        Args:
            found: where the sink stands. content: what the commit says, if it is only about to follow the log's newest
                one; None: it is there.

        Raises:
            TerminalError: a person has to decide first; or log clean-up has removed it, or VACUUM its files.
            RetryableError: see `net_changes`.
        """
        if commit.deliver == REFUSE:
            skip = f"lakemark sinks skip {self.pipeline.name} {self.name} --reason ..."
            raise refused(self.where, commit, skip, self.anew)
        if commit.deliver == SKIP:
            yield None
            return
        if self._section.what == "changes":
            with self._accepted(commit) as accepted:
                yield accepted
            return
        if content is not None:
            changes: RowChanges | None = RowChanges.that_come(target.log, content, self.anew)
        else:
            since = commit.version - 1 if self._section.route is None else -1 if found is None else found.version
            changes = RowChanges.between(target.log, since, commit.version, self.anew)
        if changes is None:
            raise self._gone(commit.version)
        if changes.is_empty:
            yield None
        else:
            with self._net(changes, arrow_schema(target.table)) as net:
                yield net

    @contextmanager
    def rows_at(self, target: Followed, version: int) -> Iterator[NetChanges]:
        """All rows of a version. Raises as `rows_of`."""
        table = Snapshot.at(target.uri, version)
        if table is None:
            raise self._gone(version)
        with self._net(RowChanges.whole(table, self.anew), table.schema) as net:
            yield net

    def _net(self, changes: RowChanges, table: pa.Schema) -> AbstractContextManager[NetChanges]:
        """Args: table: the target's columns."""
        return net_changes(changes, self._columns, table, self.pipeline.seen_by_readers, pace=self._pace)

    @contextmanager
    def _accepted(self, commit: Commit) -> Iterator[NetChanges | None]:
        """The changes that a batch has brought, from the table of accepted changes; None: there are none. Raises as
        `rows_of`."""
        [outbox] = outbox_of(self.pipeline)
        log = TableLog.open(outbox.uri(self.settings)) if commit.has_accepted else None
        if log is None or commit.batch is None:
            yield None
            return
        landed = log.landed_as(self.pipeline.name, *commit.batch)
        if landed is None and commit.batch.generation < 0 and log.reaches_back_to(0):  # a chunk from before the table
            yield None
            return
        if landed is None:
            raise self._gone(commit.version)
        version = landed.table_version
        changes = RowChanges.between(log, version - 1, version, self.anew)
        if changes is None:
            raise self._gone(version)
        table = arrow_schema(log.table)
        order = change_order(self.pipeline)
        with logged_changes(
            changes, self._columns, table, batch=commit.batch, order=order, pace=self._pace
        ) as accepted:
            yield accepted

    @property
    def _uri(self) -> LakeUri:
        return Catalog.of(self.pipeline).point.uri(self.settings)

    @property
    def _section(self) -> Sink:
        return self.pipeline.sinks[self.name]

    def _gone(self, version: int) -> TerminalError:
        return TerminalError(
            what="a commit that a sink still has to get is gone",
            where=self.where,
            expected=f"version {version} of the target",
            found="log clean-up has removed it",
            action=self.anew,
        )

    @property
    def _pace(self) -> Pace:
        return Pace(self.say, self.where)

    @property
    def _columns(self) -> tuple[SinkColumn, ...]:
        return tuple(sink_columns(self.pipeline, self._section))

    @property
    def _shape(self) -> SinkShape:
        columns = {column.name: ".".join(column.path) for column in self._columns}
        return SinkShape(self._section.place.in_words, columns)
