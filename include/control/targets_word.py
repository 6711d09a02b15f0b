"""What the target says about a ledger that was lost: from its commits, or from its rows if the commits have expired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from include.lake.delta_tables import query
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.participants.fence import stands_after
from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import FIRST_GENERATION, BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_records import BatchRecord
from include.protocol.maintenance import purged_from, purged_offsets
from include.protocol.participants import Positions
from include.protocol.planning import SourceExtent
from include.protocol.ranges import TopicPartition
from include.protocol.reading_began import topics_started
from include.protocol.settlement import LandedCommit, Settle, settle
from include.settings import Settings


@dataclass(frozen=True)
class Standing:
    """Where a target stands: the newest batch whose rows it holds, or how a generation began if no batch has landed
    since. If neither is known, its rows tell."""

    landed: LandedCommit | None
    begun: GenerationStarted | None
    generation: int  # of the newest rows
    positions: Positions  # where the tables before the point stood then; empty: nobody knows
    newest: Positions  # where the newest commit says that they stand; they are further than the target if it went back
    newest_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where that commit says to go on
    restored: tuple[int, int | None] | None = None  # a RESTORE that took later batches away, see `TableLog.restored`

    @property
    def last(self) -> BatchKey | None:
        """The batch that names all tables which batches until then have written; None: an older Lakemark wrote it."""
        if self.landed is None or self.landed.metadata.positions is None:
            return None
        return self.landed.metadata.batch.key


@dataclass(frozen=True)
class TargetsWord:
    """The target of a pipeline whose ledger was lost, at the moment of opening its log."""

    settings: Settings
    pipeline: Pipeline
    log: TableLog

    def stands(self, generation: int) -> Standing:
        """Where the target stands.

        Args:
            generation: its newest.
        """
        name, log = self.pipeline.name, self.log
        marker = log.marker(name, generation)
        landed = None if marker is None else log.landed_as(name, generation, marker)
        begun = log.begun(name, generation) if marker is None else None
        since = landed.table_version if landed else begun.target_version if begun else None
        named = _positions(landed, begun)
        offsets = landed.metadata.next_offsets if landed else begun.start_offsets if begun else {}
        if (restored := log.restored(since, log.version)) is None:
            return Standing(landed, begun, generation, positions=named, newest=named)
        told = (entry for entry in log.newest_entries(name, None) if _says_where_it_stands(entry))
        left = next((entry for entry in told if log.restored(entry.version, log.version) is None), None)
        landed, begun = (left.landed, left.begun) if left is not None else (None, None)
        # If nothing is left, the tables before the point still hold what had landed in them until then.
        stood = named if left is None else _positions(landed, begun)
        return Standing(
            landed,
            begun,
            self.newest_generation_of_rows,
            positions=stood,
            newest=named,
            newest_offsets=offsets,
            restored=restored,
        )

    def events_before(self, started: GenerationStarted, generation: int) -> list[Event]:
        """The new ledger's events, up to the generation that it begins with. If the history in the log contradicts
        itself, only that generation's start.

        Args:
            generation: the target's newest, which ends.
        """
        try:
            events = [*self._history(generation), started]
            fold(events)
        except LakemarkError:
            return [started]
        return events

    def _history(self, generation: int) -> list[Event]:
        """A generation's batches if the log has all of them, and its beginning if it was not the first."""
        name = self.pipeline.name
        commits = sorted(self.log.landed_commits(name, generation), key=lambda c: c.metadata.batch.batch_id)
        if [c.metadata.batch.batch_id for c in commits] != list(range(len(commits))):
            return []
        begun = self.log.begun(name, generation) if generation > 1 else None
        if generation > 1 and begun is None:
            return []
        events: list[Event] = [stands_after(self.settings, self.pipeline, begun)] if begun else []
        known = {*begun.topic_ids} if begun else set()
        for commit in commits:
            batch = commit.metadata.batch
            if (topics := topics_started(batch, commit.metadata.next_offsets, known)) is not None:
                events.append(topics)
                known |= {*topics.topic_ids}
            match settle(BatchRecord(batch), batch.batch_id, commit):
                case Settle(event):
                    events += [BatchPlanned(batch), event]
        return events

    @property
    def newest_generation_of_rows(self) -> int:
        [row] = query(self.log.table, f"select max({self._origin('generation')}) as generation from t")
        return max(FIRST_GENERATION, row["generation"] or FIRST_GENERATION)  # rows of backfills have negative ones

    def offsets_of_rows(self, generation: int, source: SourceExtent) -> dict[TopicPartition, int]:
        """One past the highest offset of every partition, among the rows of a generation and among the tombstones that
        were purged: records that those tombstones kept out must not be read again."""
        sql = (
            f"select {self._origin('topic')} as topic, {self._origin('partition')} as partition, "
            f"max({self._origin('offset')}) + 1 as next_offset from t "
            f"where {self._origin('generation')} = {generation} group by 1, 2"
        )
        found = {TopicPartition(r["topic"], r["partition"]): r["next_offset"] for r in query(self.log.table, sql)}
        marks = [mark for mark in purged_from(self.log.table.metadata().configuration) if mark.topic_id is not None]
        for tp, offset in purged_offsets(marks, source.topic_ids).items():
            found[tp] = max(offset, found.get(tp, 0))
        return found

    def _origin(self, name: str) -> str:
        """SQL for a part of a row's origin; an archive has a column for each part."""
        return f'"{name}"' if self.pipeline.is_landing else f"{LINEAGE}['{name}']"


def _says_where_it_stands(entry: LogEntry) -> bool:
    """A live batch, or a promotion or a restore: its rows have taken the place of those of all batches before it."""
    is_live = entry.landed is not None and not entry.landed.metadata.batch.is_chunk
    return is_live or (entry.begun is not None and entry.begun.brings_rows)


def _positions(landed: LandedCommit | None, begun: GenerationStarted | None) -> Positions:
    found = landed.metadata.positions if landed is not None else begun.positions if begun is not None else None
    return found or {}
