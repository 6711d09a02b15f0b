"""The table that a sink follows, as far as batches have landed: the point's own, or that of a route.

The point's log says what has landed. So a route's table is followed up to where the point's newest commit has left it,
and no further: what an attempt has left there whose batch has not landed, nobody gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from include.lake.delta_tables import OpenedTable
from include.lake.log_entry import LogEntry, fence_before
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.outbox import CHANGES
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.deliveries import AGAIN, Commit
from include.protocol.participants import NOWHERE


@dataclass(frozen=True)
class Followed:
    """Args: version: the newest one that has landed."""

    log: TableLog
    version: int
    _commits: Callable[[], Iterator[Commit]] = field(repr=False)

    @classmethod
    def point(cls, log: TableLog, pipeline: str) -> Followed:
        """The point's table."""
        return cls(log, log.version, lambda: map(_of_point, log.newest_entries(pipeline, None)))

    @classmethod
    def route(cls, point: TableLog, log: TableLog, pipeline: str, table: str) -> Followed | None:
        """A route's table; None: no batch has landed there yet. Args: table: the participant's name."""

        def commits() -> Iterator[Commit]:
            return _of_route(point, log, pipeline, table)

        newest = next(commits(), None)
        return None if newest is None else cls(log, newest.version, commits)

    @property
    def table_id(self) -> str:
        return self.log.table_id

    @property
    def uri(self) -> LakeUri:
        return self.log.uri

    @property
    def table(self) -> OpenedTable:
        return self.log.table

    def commits(self) -> Iterator[Commit]:
        """What has landed there, newest first; each is read when it is asked for."""
        return self._commits()


def _of_point(entry: LogEntry) -> Commit:
    if entry.landed is None:
        return Commit(entry.version, deliver=(entry.begun and entry.begun.deliver) or AGAIN)
    metadata = entry.landed.metadata
    return _of_batch(entry.version, metadata, has_accepted=_has_accepted(metadata))


def _of_batch(version: int, metadata: CommitMetadata, has_accepted: bool = True) -> Commit:
    batch = metadata.batch
    return Commit(version, batch.key, metadata.attempt_id, deliver=batch.deliver or AGAIN, has_accepted=has_accepted)


def _has_accepted(metadata: CommitMetadata) -> bool:
    """Whether the table of accepted changes was there when a batch landed. A chunk's commit does not say it."""
    if metadata.positions is None:
        return True
    stands = metadata.positions.get(CHANGES, NOWHERE)
    return stands.version is not None and not stands.left_out


def _of_route(point: TableLog, log: TableLog, pipeline: str, table: str) -> Iterator[Commit]:
    """Each version at which a commit of the point has left the table, with the first such commit."""
    held: Commit | None = None
    for entry in point.newest_entries(pipeline, None):
        if entry.landed is not None and not _is_of(log, entry.landed.metadata, table):
            break  # the table was made anew since
        found = _of_entry(log, entry, pipeline, table)
        if found is None:
            continue
        if held is not None and found.version < held.version:
            yield held
        held = found
    if held is not None:
        yield held


def _of_entry(log: TableLog, entry: LogEntry, pipeline: str, table: str) -> Commit | None:
    """What a commit of the point has left in the table; None: nothing."""
    if entry.landed is not None:
        metadata = entry.landed.metadata
        version = _left_by(log, metadata, table)
        return None if version is None else _of_batch(version, metadata)
    if entry.begun is None:
        return None
    version = fence_before(log.newest_entries(pipeline, None), entry.begun.generation)
    return None if version is None else Commit(version, deliver=entry.begun.deliver or AGAIN)


def _is_of(log: TableLog, metadata: CommitMetadata, table: str) -> bool:
    """Whether a batch has written this table, and not one that was in its place before."""
    stands = (metadata.positions or {}).get(table, NOWHERE)
    return stands.identity in (None, log.table_id)


def _left_by(log: TableLog, metadata: CommitMetadata, table: str) -> int | None:
    """The version at which a batch has left a table before the point; None: it has nothing there. A chunk's commit says
    no position: its marker is in the table."""
    if metadata.positions is not None:
        return metadata.positions.get(table, NOWHERE).version
    landed = log.landed(metadata.batch)
    return None if landed is None else landed.table_version
