"""The events of a pipeline's life, as the ledger keeps them, and the fold that makes a state of them.

Pure: rows are made of events by `ledger_rows`, the table is read and written by `include.lake.ledger`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import Batch, BatchKey
from include.protocol.counts import BatchCounts
from include.protocol.errors import FencedGeneration, LedgerConflict, TerminalError
from include.protocol.guard import fenced
from include.protocol.ranges import OffsetRange, TopicPartition

FIRST_GENERATION = 1
REBUILT = ("commit metadata", "rows")  # origins of the generations that a ledger which was made anew begins with
_BACKFILLS_OF_A_LEDGER = 100_000  # more than one will ever have; rows name them in 32 bits


@dataclass(frozen=True)
class GenerationStarted:
    """The start of a generation after the first one; the one before it is fenced in the target (I5).

    The only event that moves offsets otherwise than a batch does: back, to read again, or forward over ranges that a
    person has given up. Recorded after the fence has landed.
    """

    generation: int
    start_offsets: Mapping[TopicPartition, int]  # of every partition that is known
    topic_ids: Mapping[str, str]
    cluster_id: str | None
    origin: str  # where the offsets come from: "committed", "earliest", "batch 7", "commit metadata", "rows", "archive"
    reason: str  # a person's
    started_by: str
    target_version: int | None = None  # of the target when the generation before was fenced
    recreated: tuple[str, ...] = ()  # topics that are others now than the generation before read
    skipped: tuple[OffsetRange, ...] = ()  # what no batch will ever read: the deliberate, audited loss


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
    started_by: str  # "cli", or "airflow" and the task try's path in Airflow's UI


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt that could still speak. One that was killed leaves no such event."""

    generation: int
    batch_id: int
    attempt_id: str
    outcome: str  # "applied", "already_applied", or an error's class name
    phase_seconds: Mapping[str, float] = field(default_factory=dict)  # read, decode, merge
    problem: str | None = None  # what went wrong, and what to do


@dataclass(frozen=True)
class BatchCommitted:
    """What the target's log says of a batch; written by settle."""

    generation: int
    batch_id: int
    fingerprint: str
    table_version: int | None  # None when the log no longer has the commit
    committed_at: str | None  # ISO 8601, UTC
    attempt_id: str | None  # the attempt whose commit it is
    counts: BatchCounts | None  # None: the log no longer has the commit, or its numbers do not add up
    quarantine_version: int | None = None  # None when the batch quarantined nothing
    settle_seconds: float | None = None
    attempt_seconds: float | None = None  # that its attempt took; None: it did not live to tell
    table_id: str | None = None  # Delta's id of the target, by which another table in its place is noticed
    quality: Mapping[str, Any] | None = None  # the quality suite's verdict; None: there is no suite


@dataclass(frozen=True)
class LedgerSnapshot:
    """What all events until now add up to, for whoever plans or settles: they read on from here, so that a pipeline's
    thousandth day costs what its first one did. Says nothing new: a fold of all events checks it.
    """

    batch: Batch  # the last one, which is committed
    commit: BatchCommitted
    next_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str | None


@dataclass(frozen=True)
class BackfillPlanned:
    backfill: Backfill


@dataclass(frozen=True)
class BackfillEnded:
    """The last word on a backfill. Which of its chunks have landed says the table's log alone."""

    number: int
    outcome: BackfillOutcome
    ended_by: str


Event = (
    GenerationStarted
    | TopicsStarted
    | BatchPlanned
    | AttemptStarted
    | AttemptEnded
    | BatchCommitted
    | LedgerSnapshot
    | BackfillPlanned
    | BackfillEnded
)


@dataclass(frozen=True)
class AttemptRecord:
    attempt_id: str
    host: str
    started_by: str
    outcome: str | None = None  # None: running, or lost without a word
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None

    def after(self, ended: AttemptEnded) -> AttemptRecord:
        """The record once an attempt, this one or another, has ended."""
        if ended.attempt_id != self.attempt_id:
            return self
        return replace(self, outcome=ended.outcome, phase_seconds=ended.phase_seconds, problem=ended.problem)


@dataclass(frozen=True)
class BatchRecord:
    batch: Batch
    attempts: tuple[AttemptRecord, ...] = ()
    commit: BatchCommitted | None = None

    def seconds_of(self, attempt_id: str) -> float | None:
        """What an attempt's phases took together; None if it has not told."""
        phases = next((a.phase_seconds for a in self.attempts if a.attempt_id == attempt_id), {})
        return round(sum(phases.values()), 3) if phases else None

    def after(self, event: AttemptStarted | AttemptEnded | BatchCommitted) -> BatchRecord:
        """The record once `event`, which is of this batch, has happened.

        Raises:
            LedgerConflict: it cannot have.
        """
        match event:
            case AttemptStarted():
                started = AttemptRecord(event.attempt_id, event.host, event.started_by)
                return replace(self, attempts=(*self.attempts, started))
            case AttemptEnded():
                return replace(self, attempts=tuple(a.after(event) for a in self.attempts))
            case BatchCommitted():
                if self.commit is not None:
                    raise _conflict(event, "one commit of a batch", "a second one")
                if event.fingerprint != self.batch.fingerprint:
                    raise _conflict(event, f"fingerprint {self.batch.fingerprint}", event.fingerprint)
                return replace(self, commit=event)


@dataclass(frozen=True)
class BackfillRecord:
    backfill: Backfill
    outcome: BackfillOutcome | None = None  # None: not at its end


@dataclass(frozen=True)
class LedgerState:
    """What the events of the newest generation add up to.

    A recent state begins at a `LedgerSnapshot`: it knows the batches from there on, and no backfills.
    """

    generation: int = FIRST_GENERATION
    batches: tuple[BatchRecord, ...] = ()  # at index n: batch `first_batch_id + n`
    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the next batch starts
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    generations: tuple[GenerationStarted, ...] = ()  # how the generations after the first began, as far as is known
    backfills: Mapping[int, BackfillRecord] = field(default_factory=dict)  # of all generations, by number
    first_batch_id: int = 0  # that is known; above 0 in a recent state only
    is_whole: bool = True

    @property
    def pending(self) -> BatchRecord | None:
        """The batch that is planned and not committed; there is at most one, the last."""
        last = self.batches[-1] if self.batches else None
        return last if last is not None and last.commit is None else None

    @property
    def committed_through(self) -> int:
        """Id of the last committed batch, -1 if there is none."""
        return self.next_batch_id - 1 - (self.pending is not None)

    @property
    def next_batch_id(self) -> int:
        return self.first_batch_id + len(self.batches)

    @property
    def last_commit(self) -> BatchCommitted | None:
        """Of the last committed batch; None if there is none."""
        return (
            self.batches[self.committed_through - self.first_batch_id].commit if self.committed_through >= 0 else None
        )

    @property
    def next_backfill(self) -> int:
        """A number that no backfill of the pipeline has ever had: rows, quarantined records and markers name a backfill
        by it for good. A ledger that was made anew knows none of the backfills before it, and no two such ledgers begin
        with the same generation."""
        assert self.is_whole, "a recent state knows no backfills"
        made_anew = max((g.generation for g in self.generations if g.origin in REBUILT), default=0)
        return max([made_anew * _BACKFILLS_OF_A_LEDGER, *self.backfills]) + 1

    def snapshot(self) -> LedgerSnapshot:
        """Of a state in which the last batch is committed."""
        last = self.batches[-1]
        assert last.commit is not None, "a batch is pending"
        return LedgerSnapshot(last.batch, last.commit, self.next_offsets, self.topic_ids, self.cluster_id)

    def knows(self, key: BatchKey) -> bool:
        """Whether a question about this batch, or one of a backfill, can be answered from here."""
        generation, batch_id = key
        return self.is_whole or generation != self.generation or batch_id >= self.first_batch_id

    @property
    def target_version(self) -> int | None:
        """The target's version when the ledger last heard of it, None if it never has."""
        if (commit := self.last_commit) is not None:
            return commit.table_version
        return self.generations[-1].target_version if self.generations else None

    @property
    def committed_offsets(self) -> dict[TopicPartition, int]:
        """Where the first batch that is not committed starts, in every partition that is known."""
        return self.offsets_before(self.committed_through + 1)

    def committed_in(self, topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """The same, of topics that have these ids: a topic that was made anew has other offsets."""
        offsets = self.committed_offsets
        return {tp: at for tp, at in offsets.items() if self.topic_ids.get(tp.topic) == topic_ids.get(tp.topic)}

    def offsets_before(self, batch_id: int) -> dict[TopicPartition, int]:
        """Where batch `batch_id` of this generation starts, in every partition that is known."""
        assert batch_id >= self.first_batch_id, "a recent state does not know so far back"
        offsets = dict(self.next_offsets)
        for record in reversed(self.batches[batch_id - self.first_batch_id :]):
            offsets |= {r.topic_partition: r.start_offset for r in record.batch.ranges}
        return offsets

    def first_after(self, version: int) -> int:
        """The first batch of this generation that landed after a version of the target; the next one, if none has."""
        landed = (r.batch.batch_id for r in self.batches if r.commit and (r.commit.table_version or 0) > version)
        return next(landed, self.committed_through + 1)

    def record(self, batch_id: int) -> BatchRecord | None:
        """Batch `batch_id` of this generation, None if it was never planned."""
        place = batch_id - self.first_batch_id
        return self.batches[place] if 0 <= place < len(self.batches) else None

    def with_started(self, started: TopicsStarted) -> LedgerState:
        """The state once `started` is recorded."""
        return replace(
            self,
            next_offsets={**self.next_offsets, **started.start_offsets},
            topic_ids={**self.topic_ids, **started.topic_ids},
            cluster_id=started.cluster_id,
        )

    def planned(self, pipeline: str, key: BatchKey) -> BatchRecord:
        """The record of a batch.

        Raises:
            FencedGeneration: its generation has ended. TerminalError: it was never planned.
        """
        generation, batch_id = key
        if generation < 0:
            return BatchRecord(self.backfill(pipeline, -generation).batch(batch_id))
        if generation < self.generation:
            raise fenced(f"{pipeline} generation {generation} batch {batch_id}", generation)
        record = self.record(batch_id) if generation == self.generation else None
        if record is None:
            raise TerminalError(
                what="this batch was never planned",
                where=f"{pipeline} generation {generation} batch {batch_id}",
                expected=f"generation {self.generation} and a batch below {self.next_batch_id}, the next one",
                found=f"generation {generation} batch {batch_id}",
                action=f"plan it first: `lakemark plan {pipeline}`",
            )
        return record

    def backfill(self, pipeline: str, number: int) -> Backfill:
        """A backfill whose chunks may still land.

        Raises:
            FencedGeneration: it was cancelled, or its table has taken the target's place. TerminalError: no such one.
        """
        assert self.is_whole, "a recent state knows no backfills"
        record = self.backfills.get(number)
        if record is None:
            raise TerminalError(
                what="there is no such backfill",
                where=f"{pipeline} backfill {number}",
                expected=f"one of {', '.join(map(str, self.backfills)) or 'none: nothing was backfilled yet'}",
                found=str(number),
                action=f"see `lakemark backfill {pipeline} --list`; a ledger that was made anew knows none",
            )
        if record.outcome in ("cancelled", "swapped"):
            raise FencedGeneration(
                what=f"the backfill was {record.outcome}",
                where=f"{pipeline} backfill {number}",
                expected="one that is not at its end",
                found=record.outcome,
                action="nothing; if it is wanted after all, ask for a new one",
            )
        return record.backfill


def fold(events: Iterable[Event]) -> LedgerState:
    """The state after `events`, in order; a recent one if they begin with a `LedgerSnapshot`.

    Raises:
        LedgerConflict: they cannot have come from the protocol (a gap, an overlap, a batch planned twice ...).
    """
    folding = _Folding()
    for event in events:
        folding.add(event)
    return LedgerState(
        folding.generation,
        tuple(folding.batches),
        folding.next_offsets,
        folding.topic_ids,
        folding.cluster_id,
        tuple(folding.generations),
        folding.backfills,
        folding.first_batch_id,
        folding.is_whole,
    )


@dataclass
class _Folding:
    """The state while it grows: a list, so that ten thousand batches fold in linear time."""

    generation: int = FIRST_GENERATION
    batches: list[BatchRecord] = field(default_factory=list)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    generations: list[GenerationStarted] = field(default_factory=list)
    backfills: dict[int, BackfillRecord] = field(default_factory=dict)
    first_batch_id: int = 0
    is_whole: bool = True
    empty: bool = True

    def add(self, event: Event) -> None:
        self._add(event)
        self.empty = False

    def _add(self, event: Event) -> None:
        match event:
            case GenerationStarted():
                self._begin(event)
            case TopicsStarted():
                self._start(event)
            case BatchPlanned(batch):
                self._plan(batch)
            case LedgerSnapshot():
                self._check_snapshot(event)
            case BackfillPlanned(backfill):
                if backfill.number in self.backfills:
                    raise _conflict(f"backfill {backfill.number}", "planned once", "planned twice")
                self.backfills[backfill.number] = BackfillRecord(backfill)
            case BackfillEnded():
                record = self.backfills.get(event.number)
                if record is None or record.outcome is not None:
                    raise _conflict(event, "a backfill that is not at its end", "none" if record is None else "an end")
                self.backfills[event.number] = replace(record, outcome=event.outcome)
            case AttemptStarted() | AttemptEnded() | BatchCommitted():
                if event.generation < self.generation:
                    return  # a late word from before a reset
                place = event.batch_id - self.first_batch_id
                if place < 0 and event.generation == self.generation and event.batch_id >= 0:
                    return  # a late word of a batch that was committed before this fold begins
                if event.generation > self.generation or not 0 <= place < len(self.batches):
                    raise _conflict(event, "a planned batch", f"batches to {self._next_batch_id - 1}")
                self.batches[place] = self.batches[place].after(event)

    @property
    def _next_batch_id(self) -> int:
        return self.first_batch_id + len(self.batches)

    def _check_snapshot(self, event: LedgerSnapshot) -> None:
        batch = event.batch
        if not self.empty:
            record = self.batches[-1] if self.batches else None
            known = (record and (record.batch, record.commit), self.next_offsets, self.topic_ids, self.cluster_id)
            kept = ((batch, event.commit), dict(event.next_offsets), dict(event.topic_ids), event.cluster_id)
            if known != kept:
                raise _conflict(f"what was kept after {batch}", "what the events before add up to", "something else")
            return
        self.is_whole, self.generation, self.first_batch_id = False, batch.generation, batch.batch_id
        self.batches = [BatchRecord(batch, (), event.commit)]
        self.next_offsets, self.topic_ids = dict(event.next_offsets), dict(event.topic_ids)
        self.cluster_id = event.cluster_id

    def _begin(self, event: GenerationStarted) -> None:
        """A ledger that was rebuilt may begin with any generation; later ones follow each other."""
        if event.generation != self.generation + 1 and not (self.empty and event.generation > self.generation):
            raise _conflict(event, f"generation {self.generation + 1}", f"generation {event.generation}")
        self.generation, self.batches, self.first_batch_id = event.generation, [], 0
        self.next_offsets, self.topic_ids = dict(event.start_offsets), dict(event.topic_ids)
        self.cluster_id = event.cluster_id
        self.generations.append(event)

    def _start(self, event: TopicsStarted) -> None:
        known = sorted(event.topic_ids.keys() & self.topic_ids.keys())
        if event.generation != self.generation or known:
            raise _conflict(event, "topics that were not read before", f"a second start of {', '.join(known)}")
        self.next_offsets.update(event.start_offsets)
        self.topic_ids.update(event.topic_ids)
        self.cluster_id = event.cluster_id

    def _plan(self, batch: Batch) -> None:
        if batch.generation != self.generation or batch.batch_id != self._next_batch_id:
            raise _conflict(batch, f"generation {self.generation} batch {self._next_batch_id}", "this plan")
        if self.batches and self.batches[-1].commit is None:
            raise _conflict(batch, f"batch {self._next_batch_id - 1} committed first", "this plan")
        for r in batch.ranges:
            start = self.next_offsets.get(r.topic_partition, r.start_offset)
            if r.start_offset != start:
                raise _conflict(batch, f"{r.topic_partition} from {start}", str(r))
            self.next_offsets[r.topic_partition] = r.end_offset
        self.topic_ids.update(batch.topic_ids)
        self.cluster_id = batch.cluster_id
        self.batches.append(BatchRecord(batch))


def _conflict(where: object, expected: str, found: str) -> LedgerConflict:
    return LedgerConflict(
        what="the ledger's events contradict each other",
        where=str(where),
        expected=expected,
        found=found,
        action="the ledger was written by something else than Lakemark, or is damaged; the target's log is the "
        "truth: look at both with `lakemark audit NAME`; `lakemark ledger rebuild NAME` makes it anew from that",
    )
