"""The events of a batch's life, as the ledger keeps them, and the fold that makes a state of them.

Pure: the ledger's table is read and written by `include.ledger`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.errors import LedgerConflict, TerminalError
from include.protocol.ranges import TopicPartition

FIRST_GENERATION = 1


@dataclass(frozen=True)
class TopicsStarted:
    """Where reading begins in topics that were not read before: every partition of them, the empty ones too.

    Written down before the first batch, or "the first record" would be whatever Kafka still holds when a partition's
    turn comes, and "the latest" would move on with every look (I7).
    """

    generation: int
    next_batch_id: int  # the first batch that it matters to
    start_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str


@dataclass(frozen=True)
class BatchPlanned:
    batch: Batch


@dataclass(frozen=True)
class AttemptStarted:
    generation: int
    batch_id: int
    attempt_id: str
    host: str
    started_by: str  # "airflow", "cli" ...


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt that could still speak. One that was killed leaves no such event."""

    generation: int
    batch_id: int
    attempt_id: str
    outcome: str  # "applied", "already_applied", or an error's class name
    phase_seconds: Mapping[str, float] = field(default_factory=dict)  # read, decode, merge


@dataclass(frozen=True)
class BatchCommitted:
    """What the target's log says of a batch; written by settle."""

    generation: int
    batch_id: int
    fingerprint: str
    table_version: int | None  # None when the log no longer has the commit
    committed_at: str | None  # ISO 8601, UTC
    attempt_id: str | None  # the attempt whose commit it is
    counts: BatchCounts | None
    quarantine_version: int | None = None  # None when the batch quarantined nothing
    settle_seconds: float | None = None


Event = TopicsStarted | BatchPlanned | AttemptStarted | AttemptEnded | BatchCommitted
EventName = Literal["topics_started", "planned", "attempt_started", "attempt_ended", "committed"]


@dataclass(frozen=True)
class AttemptRecord:
    attempt_id: str
    host: str
    started_by: str
    outcome: str | None = None  # None: running, or lost without a word
    phase_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchRecord:
    batch: Batch
    attempts: tuple[AttemptRecord, ...] = ()
    commit: BatchCommitted | None = None


@dataclass(frozen=True)
class LedgerState:
    """What the events of the newest generation add up to."""

    generation: int = FIRST_GENERATION
    batches: tuple[BatchRecord, ...] = ()  # at index n: batch n
    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the next batch starts
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None

    @property
    def pending(self) -> BatchRecord | None:
        """The batch that is planned and not committed; there is at most one, the last."""
        last = self.batches[-1] if self.batches else None
        return last if last is not None and last.commit is None else None

    @property
    def committed_through(self) -> int:
        """Id of the last committed batch, -1 if there is none."""
        return len(self.batches) - 1 - (self.pending is not None)

    @property
    def next_batch_id(self) -> int:
        return len(self.batches)

    def record(self, batch_id: int) -> BatchRecord | None:
        return self.batches[batch_id] if 0 <= batch_id < len(self.batches) else None

    def with_started(self, started: TopicsStarted) -> LedgerState:
        """The state once `started` is recorded."""
        return replace(
            self,
            next_offsets={**self.next_offsets, **started.start_offsets},
            topic_ids={**self.topic_ids, **started.topic_ids},
            cluster_id=started.cluster_id,
        )

    def planned(self, pipeline: str, batch_id: int) -> BatchRecord:
        """The record of a batch; raises TerminalError if there is none."""
        record = self.record(batch_id)
        if record is None:
            raise TerminalError(
                what="this batch was never planned",
                where=f"{pipeline} generation {self.generation} batch {batch_id}",
                expected=f"a batch below {self.next_batch_id}, the next to be planned",
                found=f"batch {batch_id}",
                action=f"plan it first: `lakemark plan {pipeline}`",
            )
        return record


def fold(events: Iterable[Event]) -> LedgerState:
    """The state after `events`, in order.

    Raises:
        LedgerConflict: they cannot have come from the protocol (a gap, an overlap, a batch planned twice ...).
    """
    folding = _Folding()
    for event in events:
        folding.add(event)
    return LedgerState(
        folding.generation, tuple(folding.batches), folding.next_offsets, folding.topic_ids, folding.cluster_id
    )


@dataclass
class _Folding:
    """The state while it grows: a list, so that ten thousand batches fold in linear time."""

    generation: int = FIRST_GENERATION
    batches: list[BatchRecord] = field(default_factory=list)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    cluster_id: str | None = None

    def add(self, event: Event) -> None:
        match event:
            case TopicsStarted():
                self._start(event)
            case BatchPlanned(batch):
                self._plan(batch)
            case AttemptStarted() | AttemptEnded() | BatchCommitted():
                if event.generation < self.generation:
                    return  # a late word from before a reset
                if event.generation > self.generation or not 0 <= event.batch_id < len(self.batches):
                    raise _conflict(event, "a planned batch", f"batches 0 to {len(self.batches) - 1}")
                self.batches[event.batch_id] = _with(self.batches[event.batch_id], event)

    def _enter(self, generation: int) -> None:
        if generation > self.generation:
            self.__init__(generation=generation)  # type: ignore[misc]

    def _start(self, event: TopicsStarted) -> None:
        self._enter(event.generation)
        known = sorted(event.topic_ids.keys() & self.topic_ids.keys())
        if event.generation < self.generation or known:
            raise _conflict(event, "topics that were not read before", f"a second start of {', '.join(known)}")
        self.next_offsets.update(event.start_offsets)
        self.topic_ids.update(event.topic_ids)
        self.cluster_id = event.cluster_id

    def _plan(self, batch: Batch) -> None:
        self._enter(batch.generation)
        if batch.generation < self.generation or batch.batch_id != len(self.batches):
            raise _conflict(batch, f"generation {self.generation} batch {len(self.batches)}", "this plan")
        if self.batches and self.batches[-1].commit is None:
            raise _conflict(batch, f"batch {len(self.batches) - 1} committed first", "this plan")
        for r in batch.ranges:
            start = self.next_offsets.get(r.topic_partition, r.start_offset)
            if r.start_offset != start:
                raise _conflict(batch, f"{r.topic_partition} from {start}", str(r))
            self.next_offsets[r.topic_partition] = r.end_offset
        self.topic_ids.update(batch.topic_ids)
        self.cluster_id = batch.cluster_id
        self.batches.append(BatchRecord(batch))


def _with(record: BatchRecord, event: AttemptStarted | AttemptEnded | BatchCommitted) -> BatchRecord:
    match event:
        case AttemptStarted():
            started = AttemptRecord(event.attempt_id, event.host, event.started_by)
            return replace(record, attempts=(*record.attempts, started))
        case AttemptEnded():
            return replace(
                record,
                attempts=tuple(
                    replace(a, outcome=event.outcome, phase_seconds=event.phase_seconds)
                    if a.attempt_id == event.attempt_id
                    else a
                    for a in record.attempts
                ),
            )
        case BatchCommitted():
            if record.commit is not None:
                raise _conflict(event, "one commit of a batch", "a second one")
            if event.fingerprint != record.batch.fingerprint:
                raise _conflict(event, f"fingerprint {record.batch.fingerprint}", event.fingerprint)
            return replace(record, commit=event)


def _conflict(where: object, expected: str, found: str) -> LedgerConflict:
    return LedgerConflict(
        what="the ledger's events contradict each other",
        where=str(where),
        expected=expected,
        found=found,
        action="the ledger was written by something else than Lakemark, or is damaged; the target's log is the "
        "truth: look at both with `lakemark audit`",
    )


def to_row(event: Event) -> dict[str, Any]:
    """The event as a row of the ledger: generation, batch_id, event, attempt_id, details (JSON data)."""
    match event:
        case TopicsStarted():
            starts = [
                {"topic": tp.topic, "partition": tp.partition, "offset": offset}
                for tp, offset in event.start_offsets.items()
            ]
            details = {"start_offsets": starts, "topic_ids": dict(event.topic_ids), "cluster_id": event.cluster_id}
            return _row(event.generation, event.next_batch_id, "topics_started", None, details)
        case BatchPlanned(batch):
            return _row(batch.generation, batch.batch_id, "planned", None, batch.to_json())
        case AttemptStarted():
            details = {"host": event.host, "started_by": event.started_by}
            return _row(event.generation, event.batch_id, "attempt_started", event.attempt_id, details)
        case AttemptEnded():
            details = {"outcome": event.outcome, "phase_seconds": dict(event.phase_seconds)}
            return _row(event.generation, event.batch_id, "attempt_ended", event.attempt_id, details)
        case BatchCommitted():
            details = {
                "fingerprint": event.fingerprint,
                "table_version": event.table_version,
                "committed_at": event.committed_at,
                "counts": event.counts and event.counts.to_json(),
                "quarantine_version": event.quarantine_version,
                "settle_seconds": event.settle_seconds,
            }
            return _row(event.generation, event.batch_id, "committed", event.attempt_id, details)


def from_row(row: Mapping[str, Any]) -> Event:
    """The inverse of `to_row`."""
    details, key = row["details"], (row["generation"], row["batch_id"])
    match row["event"]:
        case "topics_started":
            starts = {TopicPartition(s["topic"], s["partition"]): s["offset"] for s in details["start_offsets"]}
            return TopicsStarted(*key, **{**details, "start_offsets": starts})
        case "planned":
            return BatchPlanned(Batch.from_json(details))
        case "attempt_started":
            return AttemptStarted(*key, row["attempt_id"], **details)
        case "attempt_ended":
            return AttemptEnded(*key, row["attempt_id"], **details)
        case "committed":
            counts = details["counts"] and BatchCounts(**details["counts"])
            return BatchCommitted(*key, attempt_id=row["attempt_id"], **{**details, "counts": counts})
        case other:
            raise _conflict(row, "an event that this version of Lakemark knows", repr(other))


def _row(generation: int, batch_id: int, event: EventName, attempt_id: str | None, details: dict) -> dict[str, Any]:
    return {
        "generation": generation,
        "batch_id": batch_id,
        "event": event,
        "attempt_id": attempt_id,
        "details": details,
    }
