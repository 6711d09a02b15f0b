"""Reads what a table's Delta log says about batches: markers and commit metadata. No JVM, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from include.lake.delta_tables import OpenedTable, marker_in, open_table, verify_forgets_no_marker
from include.lake.log_entry import LogEntry, moment
from include.lake.log_store import succession
from include.lake.log_tail import LogTail, newest_infos
from include.lake.operations import BROUGHT_BACK
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.batch import FENCE, FORM, Batch, app_id, ended_id
from include.protocol.commit_metadata import CommitMetadata, own_metadata
from include.protocol.counts import MergeCounts
from include.protocol.generations import fenced_for
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import FIRST_GENERATION, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position, Stamp, ended
from include.protocol.settlement import LandedCommit, TargetView


@dataclass(frozen=True)
class TableLog:
    """The log of one table, at the moment of opening. The newest commits hold nearly all that a batch needs: they are
    read by name. For everything else the table is opened as it was at that moment (see `log_tail`)."""

    uri: LakeUri
    version: int
    stamp: str | None  # of that version: see `LogStore.stamp`
    tail: LogTail | None
    _opened: OpenedTable | None = None

    @classmethod
    def open(cls, uri: LakeUri) -> TableLog | None:
        """None if there is no such table yet. Raises TableDamaged."""
        if (tail := LogTail.of(uri)) is not None:
            return cls(uri, tail.version, tail.stamp, tail)
        if next(files_at(uri).list(uri), None) is None or (table := open_table(uri)) is None:
            return None
        stamp = log_store_of(uri).stamp(table.version())
        return cls(uri, table.version(), stamp, tail=None, _opened=table)

    @property
    def succession(self) -> str:
        """What a commit says that must succeed this version of this table."""
        return succession(self.version, self.stamp)

    @cached_property
    def table(self) -> OpenedTable:
        table = self._opened or open_table(self.uri, self.version)
        assert table is not None, "its log was there a moment ago"
        return table

    @cached_property
    def table_id(self) -> str:
        return self.tail.table_id if self.tail else str(self.table.metadata().id)

    @property
    def schema(self) -> str:
        """The table's columns, in Delta's JSON."""
        return self.tail.schema if self.tail else self.table.schema().to_json()

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties."""
        return self.tail.configuration if self.tail else dict(self.table.metadata().configuration)

    def marker(self, pipeline: str, generation: int) -> int | None:
        """The last batch id of a generation that the table holds; None if there is none."""
        return self._marker(app_id(pipeline, generation))

    def marker_of(self, batch: Batch) -> int | None:
        """The marker under the batch's appId; None if there is none."""
        return self._marker(batch.app_id)

    def _marker(self, app_id: str) -> int | None:
        if self.tail is None:
            return marker_in(self.table, app_id)
        if (found := self.tail.marker(app_id)) is None:
            verify_forgets_no_marker(self.uri, self.configuration)
        return found

    def position(self, pipeline: str, generation: int, form: int = FORM) -> Position:
        """Where the table stands, if it is one before the point. Its digest is not read: see `digest_of`.

        Args:
            generation: the ledger's. form: of its batches.

        Raises:
            LedgerBehindTarget: the table says that the generation has ended.
        """
        for g in range(generation, 0, -1):
            number = self.marker(pipeline, g)
            if number == FENCE and g == generation:
                raise ended(pipeline, generation, str(self.uri))
            if number == FENCE:
                number = self._marker(ended_id(pipeline, g))
            if number is not None and number >= 0:  # below, a restore has taken back all that the generation had left
                stamp = Stamp.of(number, form if g == generation else FORM)
                return Position(g, *stamp, version=self.version, identity=self.table_id)
        return replace(NOWHERE, version=self.version, identity=self.table_id)

    def newest_position(self, pipeline: str, generation: int, form: int = FORM) -> Position:
        """As `position`, for a ledger that may know fewer generations than the table.

        Args:
            generation: one that has existed.
        """
        newest = self.newest_generation_after(pipeline, generation)
        return self.position(pipeline, newest, form if newest == generation else FORM)

    def newest_generation_after(self, pipeline: str, generation: int) -> int:
        """The newest generation from this one on, which has no fence yet."""
        while self.marker(pipeline, generation) == FENCE:
            generation += 1
        return generation

    def digest_of(self, batch: Batch) -> str | None:
        """The digest of the batch's newest commit here; None if log clean-up has removed it, or a RESTORE its rows."""
        for entry in self._history():
            metadata = CommitMetadata.loads(entry.get("userMetadata"))
            if metadata is not None and (metadata.batch.pipeline, metadata.batch.key) == (batch.pipeline, batch.key):
                return metadata.digest
            if _restores(entry):
                return None
        return None

    def attempt_at(self, version: int) -> str | None:
        """The attempt that made the commit of a version; None if there is no such commit, or no attempt made it."""
        told = (CommitMetadata.loads(entry.get("userMetadata")) for entry in newest_infos(self.uri, version, 1))
        metadata = next(told, None)
        return metadata.attempt_id if metadata is not None else None

    def reaches_back_to(self, version: int) -> bool:
        """Whether log clean-up has left all commits after a version."""
        return version >= self.version or log_store_of(self.uri).has(version + 1)

    def live_commits(self, pipeline: str, after: int) -> list[tuple[int, Batch]]:
        """The live batches that were committed after a version, with the versions they made, oldest first. Those that a
        restore has taken back are not among them."""
        commits = self.landed_commits(pipeline, limit=self.version - self._since(after, self.version))
        batches = [(commit.table_version, commit.metadata.batch) for commit in commits]
        return [(version, batch) for version, batch in reversed(batches) if not batch.is_chunk]

    def _since(self, version: int, until_version: int) -> int:
        """The newest version between two at which a restore of ours brought the table back, so that nothing before it
        counts; the first one if none did."""
        entries = newest_infos(self.uri, until_version, until_version - version)
        return next((entry["version"] for entry in entries if entry.get("operation") == BROUGHT_BACK), version)

    def landed(self, batch: Batch) -> LandedCommit | None:
        """The commit of a batch; None if it never landed, or if log clean-up removed its metadata."""
        return self.landed_as(batch.pipeline, batch.generation, batch.batch_id)

    def landed_as(self, pipeline: str, generation: int, batch_id: int) -> LandedCommit | None:
        """The newest commit that carries this marker."""
        commits = self.landed_commits(pipeline, generation)
        return next((commit for commit in commits if commit.metadata.batch.batch_id == batch_id), None)

    def landed_commits(
        self, pipeline: str, generation: int | None = None, limit: int | None = None
    ) -> Iterator[LandedCommit]:
        """All commits of a pipeline's batches (or of one generation) that the log still has, newest first."""
        for entry in self._history(limit):
            metadata = CommitMetadata.loads(entry.get("userMetadata"))
            if metadata and metadata.batch.pipeline == pipeline and generation in (None, metadata.batch.generation):
                yield self._landed_commit(entry, metadata)

    @property
    def pipelines(self) -> list[str]:
        """The names of all pipelines whose batches the log still has commits of."""
        told = (CommitMetadata.loads(entry.get("userMetadata")) for entry in self._history())
        return sorted({metadata.batch.pipeline for metadata in told if metadata is not None})

    def entries(self, pipeline: str) -> list[LogEntry]:
        """All commits that the log still has, oldest first, with what they say about a pipeline."""
        return [*self.newest_entries(pipeline, None)][::-1]

    def newest_entries(self, pipeline: str, limit: int | None) -> Iterator[LogEntry]:
        """The newest commits, newest first, with what they say about a pipeline; each is read when it is asked for."""
        return (self._entry(entry, pipeline) for entry in self._history(limit))

    def _history(self, limit: int | None = None) -> Iterator[JsonObject]:
        """The `commitInfo` of commits, newest first, with the versions that their files are named after.

        It does not use `DeltaTable.history`, which reads from the newest commit on and counts down from the version
        that was opened. So every number is wrong if somebody has committed in between (deltalake 1.6.6).
        """
        return newest_infos(self.uri, self.version, limit)

    def _entry(self, entry: JsonObject, pipeline: str) -> LogEntry:
        text = entry.get("userMetadata")
        metadata = CommitMetadata.loads(text)
        return LogEntry(
            version=entry["version"],
            at=moment(entry),
            operation=entry.get("operation") or "unknown",
            engine=entry.get("engineInfo") or "an unknown engine",
            own=own_metadata(text) is not None,
            landed=self._landed_commit(entry, metadata) if metadata and metadata.batch.pipeline == pipeline else None,
            begun=fenced_for(text, pipeline),
        )

    def begun(self, pipeline: str, generation: int) -> GenerationStarted | None:
        """How a generation began, from the fence of the one before it; None if the log has no such fence."""
        return next((s for s in self._begun(pipeline) if s.generation == generation), None)

    def begun_after(self, pipeline: str, generation: int) -> GenerationStarted | None:
        """How the generation began that followed this one; None if the log has no such fence."""
        later = [started for started in self._begun(pipeline) if started.generation > generation]
        return min(later, key=lambda started: started.generation, default=None)

    def _begun(self, pipeline: str) -> Iterator[GenerationStarted]:
        """What all fences say, newest first."""
        found = (fenced_for(entry.get("userMetadata"), pipeline) for entry in self._history())
        yield from (started for started in found if started is not None)

    def newest_generation(self, pipeline: str, at_least: int) -> int:
        """The newest generation, which has no fence yet.

        Args:
            at_least: a generation that has existed.
        """
        known = max([at_least, *(c.metadata.batch.generation for c in self.landed_commits(pipeline))])
        return self.newest_generation_after(pipeline, known)

    def view(self, pipeline: str, state: LedgerState) -> TargetView:
        """What a planner needs from a target's log. Args: state: of the ledger, as read before the log."""
        generation = state.generation
        marker = self.marker(pipeline, generation)
        # Only a generation that has written nothing yet must look for the fence before it.
        is_begun = marker is not None or generation == FIRST_GENERATION
        is_fenced = is_begun or self.marker(pipeline, generation - 1) == FENCE
        return TargetView(marker, self.table_id, self.restored(state.target_version, self.version), is_fenced)

    def restored(self, since_version: int | None, until_version: int) -> tuple[int, int | None] | None:
        """The RESTORE between two versions that took away what the first one held, or what chunks of backfills have
        brought since; and the version that it went back to, if it says so. If several did, the one that went back
        furthest. One that was taken back by another RESTORE took nothing away.

        Args:
            since_version: None: there is no search.
        """
        found: tuple[int, int | None] | None = None
        if since_version is not None:
            since_version = self._since(since_version, until_version)
        while since_version is not None and since_version < until_version:
            restores = (e for e in newest_infos(self.uri, until_version, until_version - since_version) if _restores(e))
            if (entry := next(restores, None)) is None:
                break
            said = (entry.get("operationParameters") or {}).get("version")
            if said in (None, "null", ""):
                return entry["version"], None
            until_version = int(said)
            if until_version < since_version or self._holds_chunks(until_version, entry["version"]):
                found = entry["version"], until_version
        return found

    def _holds_chunks(self, after: int, before: int) -> bool:
        """Whether chunks of backfills were committed between two versions."""
        told = (
            CommitMetadata.loads(e.get("userMetadata")) for e in newest_infos(self.uri, before - 1, before - 1 - after)
        )
        return any(metadata is not None and metadata.batch.is_chunk for metadata in told)

    def _landed_commit(self, entry: JsonObject, metadata: CommitMetadata) -> LandedCommit:
        metrics = entry.get("operationMetrics") or {}

        def number(name: str) -> int:
            return int(metrics.get(name, 0))

        appended = number("numOutputRows") if metadata.role == "archive" else 0
        return LandedCommit(
            table_version=entry["version"],
            committed_at=moment(entry),
            metadata=metadata,
            merge=MergeCounts(
                source_rows=number("numSourceRows") + appended,
                inserted=number("numTargetRowsInserted") + appended,
                updated=number("numTargetRowsUpdated"),
                deleted=number("numTargetRowsDeleted"),
            ),
            table_id=self.table_id,
        )


def landed_and_marker(log: TableLog | None, batch: Batch) -> tuple[int | None, LandedCommit | None]:
    """A table's marker under the batch's appId, and the batch's own commit if it has landed; both None if there is no
    table."""
    marker = None if log is None else log.marker_of(batch)
    return marker, None if log is None or marker is None or marker < batch.batch_id else log.landed(batch)


def _restores(entry: JsonObject) -> bool:
    return entry.get("operation") == "RESTORE"
