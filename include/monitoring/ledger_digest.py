"""Sums up a ledger in constant memory, for watching many pipelines with long histories.

`LedgerState` keeps every batch. A digest keeps only the last one, and sums; new events alone bring it up to date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import (
    FIRST_GENERATION,
    AttemptEnded,
    AttemptStarted,
    BackfillEnded,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    GenerationStarted,
    MaintenanceEnded,
    TopicsStarted,
)
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_rows import from_row
from include.protocol.proofs import PipelineAudited, Proofs, joined
from include.protocol.ranges import TopicPartition


@dataclass(frozen=True)
class Sums:
    """What the batches of a generation have done."""

    commits: int = 0
    records: Mapping[str, int] = field(default_factory=dict)  # sums of the commits' counts

    def plus(self, commit: BatchCommitted) -> Sums:
        records = Counter(self.records)
        records.update(commit.counts.to_json() if commit.counts else {})
        return Sums(self.commits + 1, records)


@dataclass(frozen=True)
class LedgerDigest:
    """A ledger, up to the event before `sequence`."""

    sequence: int = 0  # of the next event
    generation: int = FIRST_GENERATION
    last: BatchRecord | None = None  # the batch that was planned last in this generation
    first_event_at: datetime | None = None
    commit: BatchCommitted | None = None  # the newest, of any generation
    by_generation: Mapping[int, Sums] = field(default_factory=dict)
    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the next batch starts
    first_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where reading began
    open_backfills: tuple[int, ...] = ()
    proofs: Proofs = field(default_factory=dict)  # the newest looks of audits
    maintained_at: datetime | None = None  # when maintenance last ended; None: never

    @property
    def sums(self) -> Sums:
        """The sums of the current generation."""
        return self.by_generation.get(self.generation, Sums())

    @property
    def pending(self) -> BatchRecord | None:
        """The batch that is planned and not committed."""
        return self.last if self.last is not None and self.last.commit is None else None

    @property
    def committed_offsets(self) -> dict[TopicPartition, int]:
        """Where the first batch that is not committed starts."""
        pending = self.pending.batch.ranges if self.pending else ()
        return {**self.next_offsets, **{r.topic_partition: r.start_offset for r in pending}}

    def after(self, rows: Iterable[JsonMapping]) -> LedgerDigest:
        """The digest after more rows of the ledger (`details` as data), in order. None may be missing, except
        attempts at batches before the last one."""
        digesting = _Digesting(self)
        for row in rows:
            digesting.add(row)
        return digesting.digest()


class _Digesting:
    def __init__(self, start: LedgerDigest) -> None:
        self._now = start
        self._sums = dict(start.by_generation)
        self._next = dict(start.next_offsets)
        self._first = dict(start.first_offsets)

    def digest(self) -> LedgerDigest:
        return replace(self._now, by_generation=dict(self._sums), next_offsets=self._next, first_offsets=self._first)

    def add(self, row: JsonMapping) -> None:
        now = self._now
        changes: JsonObject = {"sequence": row["sequence"] + 1}
        changes["first_event_at"] = now.first_event_at or row["recorded_at"]
        match from_row(row):
            case GenerationStarted() as started:
                self._next = dict(started.start_offsets)
                self._first = {tp: min(o, self._first.get(tp, o)) for tp, o in started.start_offsets.items()}
                changes |= {"generation": started.generation, "last": None}
            case TopicsStarted() as started:
                self._next.update(started.start_offsets)
                self._first = {**started.start_offsets, **self._first}
            case BatchPlanned(batch, stands_on, _):
                self._next.update({r.topic_partition: r.end_offset for r in batch.ranges})
                changes["last"] = BatchRecord(batch, stands_on=stands_on)
            case (AttemptStarted() | AttemptEnded()) as event:
                if now.last is not None and now.last.batch.key == (event.generation, event.batch_id):
                    changes["last"] = now.last.after(event)
            case BatchCommitted() as commit:
                if now.last is not None and now.last.batch.key == (commit.generation, commit.batch_id):
                    changes |= {"last": now.last.after(commit), "commit": commit}
                    self._sums[commit.generation] = self._sums.get(commit.generation, Sums()).plus(commit)
            case BackfillPlanned(backfill):
                changes["open_backfills"] = (*now.open_backfills, backfill.number)
            case BackfillEnded() as ended:
                changes["open_backfills"] = tuple(n for n in now.open_backfills if n != ended.number)
            case PipelineAudited() as audited:
                changes["proofs"] = joined(now.proofs, audited.looks)
            case MaintenanceEnded() as ended:
                changes["maintained_at"] = datetime.fromisoformat(ended.ended_at)
        self._now = replace(now, **changes)
