"""What a pipeline's events add up to: its batches, attempts and backfills, and where the next batch starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import Batch, BatchKey
from include.protocol.errors import FencedGeneration, LedgerConflict, TerminalError
from include.protocol.guard import fenced
from include.protocol.ledger_events import (
    FIRST_GENERATION,
    REBUILT,
    AttemptEnded,
    AttemptStarted,
    BatchCommitted,
    GenerationStarted,
    LedgerSnapshot,
    TopicsStarted,
)
from include.protocol.ranges import TopicPartition

_BACKFILLS_OF_A_LEDGER = 100_000  # more than one will ever have; rows name them in 32 bits


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
                    raise contradiction(event, "one commit of a batch", "a second one")
                if event.fingerprint != self.batch.fingerprint:
                    raise contradiction(event, f"fingerprint {self.batch.fingerprint}", event.fingerprint)
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
        return LedgerSnapshot(
            batch=last.batch,
            commit=last.commit,
            next_offsets=self.next_offsets,
            topic_ids=self.topic_ids,
            cluster_id=self.cluster_id,
        )

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


def contradiction(where: object, expected: str, found: str) -> LedgerConflict:
    """The error of an event that cannot follow those before it."""
    return LedgerConflict(
        what="the ledger's events contradict each other",
        where=str(where),
        expected=expected,
        found=found,
        action="the ledger was written by something else than Lakemark, or is damaged; the target's log is the "
        "truth: look at both with `lakemark audit NAME`; `lakemark ledger rebuild NAME` makes it anew from that",
    )
