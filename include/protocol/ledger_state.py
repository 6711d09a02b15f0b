"""What a pipeline's events add up to: batches, attempts, backfills, and where the next batch starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from include.protocol.backfill import Backfill
from include.protocol.batch import FORM, BatchKey
from include.protocol.errors import FencedGeneration, TerminalError
from include.protocol.guard import fenced
from include.protocol.ledger_events import (
    FIRST_GENERATION,
    REBUILT,
    BatchCommitted,
    GenerationStarted,
    LedgerSnapshot,
    PipelineMoved,
    TopicsStarted,
    TurnOver,
    TurnTaken,
)
from include.protocol.ledger_records import BackfillRecord, BatchRecord
from include.protocol.participants import NOWHERE, Positions
from include.protocol.proofs import Proofs
from include.protocol.ranges import TopicPartition
from include.protocol.sinks import Sinks

_BACKFILLS_OF_A_LEDGER = 100_000  # more than any ledger will have; rows store a backfill's number in 32 bits


@dataclass(frozen=True)
class LedgerState:
    """What the events of the newest generation add up to.

    A recent state begins at a `LedgerSnapshot`. It knows the batches from there on, and no backfills.
    """

    generation: int = FIRST_GENERATION
    batches: tuple[BatchRecord, ...] = ()  # at index n: batch `first_batch_id + n`
    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the next batch starts
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    generations: tuple[GenerationStarted, ...] = ()  # the starts of later generations, as far as they are known
    backfills: Mapping[int, BackfillRecord] = field(default_factory=dict)  # of all generations, by number
    first_batch_id: int = 0  # the first known batch; above 0 only in a recent state
    is_whole: bool = True
    proofs: Proofs = field(default_factory=dict)  # the newest looks of audits, of any generation
    left_out: frozenset[str] = frozenset()  # tables that lack the changes of a chunk (see `TablesLeftOut`)
    sinks: Sinks = field(default_factory=dict)  # what is known of the sinks outside the lake, in any generation
    told: Mapping[TopicPartition, int] = field(default_factory=dict)  # sinks get nothing of the records before these
    # The newest one over each, unless it was ended; a recent state may have missed it.
    turns: Mapping[TurnOver, TurnTaken] = field(default_factory=dict)
    # The newest one. Of a ledger that takes no event any more it is the last one, so that a recent state knows it.
    moved: PipelineMoved | None = None
    maintained_at: str | None = None  # when maintenance last ended, in any generation (ISO 8601, UTC); None: never

    @property
    def pending(self) -> BatchRecord | None:
        """The batch that is planned and not committed. There is at most one, the last."""
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
        """The commit of the last committed batch; None if there is none."""
        return (
            self.batches[self.committed_through - self.first_batch_id].commit if self.committed_through >= 0 else None
        )

    @property
    def next_backfill(self) -> int:
        """A number that no backfill of the pipeline has ever had.

        Rows, quarantined records and markers keep the number for ever. A rebuilt ledger does not know the earlier
        backfills, and nobody's knows those of another pipeline whose rows it has got. So it counts from 100,000 times
        the generation that began with that, and no two begin the same generation.
        """
        assert self.is_whole, "a recent state knows no backfills"
        unknown = (g.generation for g in self.generations if g.origin in REBUILT or g.is_clone or g.is_cut_over)
        return max([max(unknown, default=0) * _BACKFILLS_OF_A_LEDGER, *self.backfills]) + 1

    def snapshot(self) -> LedgerSnapshot:
        """A snapshot of this state, whose last batch must be committed."""
        last = self.batches[-1]
        assert last.commit is not None, "a batch is pending"
        return LedgerSnapshot(
            batch=last.batch,
            commit=last.commit,
            next_offsets=self.next_offsets,
            topic_ids=self.topic_ids,
            cluster_id=self.cluster_id,
            proofs=self.proofs,
            left_out=self.left_out,
            sinks=self.sinks,
            told=self.told,
            maintained_at=self.maintained_at,
        )

    def knows(self, key: BatchKey) -> bool:
        """Whether this state can answer a question about this batch, or about a chunk of a backfill."""
        generation, batch_id = key
        return self.is_whole or generation != self.generation or batch_id >= self.first_batch_id

    @property
    def positions(self) -> Positions:
        """Where the tables before the point must stand, as the last landed batch has left them. A table that is not
        here is accepted as it is."""
        named: Positions = (self.generations[-1].positions or {}) if self.generations else {}
        if self.pending is not None:
            named = self.pending.stands_on
        elif (commit := self.last_commit) is not None:
            named = commit.positions or {}
        return {**named, **{name: replace(named[name], left_out=True) for name in self.left_out & named.keys()}}

    def known_before(self, batch_id: int) -> BatchCommitted | GenerationStarted | None:
        """What the ledger knows of the target before a batch: the commit of the batch before, or how the generation
        began; None in a first generation."""
        before = self.record(batch_id - 1)
        if before is not None:
            return before.commit
        return self.generations[-1] if self.generations and batch_id == 0 else None

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was ever planned, as far as this ledger knows."""
        return self.is_whole and not self.batches and not self.generations

    @property
    def form(self) -> int:
        """The form of this generation's batches (see `Batch`). A ledger without a batch has the newest form."""
        if self.batches:
            return self.batches[-1].batch.form
        return self.generations[-1].form if self.generations else FORM

    @property
    def target_version(self) -> int | None:
        """The target's version in the newest event that has one; None if no event has."""
        if (commit := self.last_commit) is not None:
            return commit.table_version
        return self.generations[-1].target_version if self.generations else None

    @property
    def committed_offsets(self) -> dict[TopicPartition, int]:
        """Where the first batch that is not committed starts, in every known partition."""
        return self.offsets_before(self.committed_through + 1)

    def committed_in(self, topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """As `committed_offsets`, only in topics that have these ids: a re-created topic has other offsets."""
        offsets = self.committed_offsets
        return {tp: at for tp, at in offsets.items() if self.topic_ids.get(tp.topic) == topic_ids.get(tp.topic)}

    def offsets_before(self, batch_id: int) -> dict[TopicPartition, int]:
        """Where batch `batch_id` of this generation starts, in every known partition."""
        assert batch_id >= self.first_batch_id, "a recent state does not know so far back"
        offsets = dict(self.next_offsets)
        for record in reversed(self.batches[batch_id - self.first_batch_id :]):
            offsets |= {r.topic_partition: r.start_offset for r in record.batch.ranges}
        return offsets

    def first_after(self, version: int, table: str | None = None) -> int | None:
        """The first batch of this generation that landed after a version of the target, or of a table before the point;
        the next batch if none has. None: earlier ones may have landed after it, too. Args: table: the table's name."""

        def version_after(event: BatchCommitted | GenerationStarted) -> int | None:
            if table is None:
                return event.target_version
            return (event.positions or {}).get(table, NOWHERE).version

        if self.generations:
            begun = version_after(self.generations[-1])
            if begun is None or begun > version:
                return None
        landed = (r.batch.batch_id for r in self.batches if r.commit and (version_after(r.commit) or 0) > version)
        first = next(landed, self.committed_through + 1)
        return None if first == self.first_batch_id and not self.is_whole else first

    def record(self, batch_id: int) -> BatchRecord | None:
        """Batch `batch_id` of this generation, None if it was never planned."""
        place = batch_id - self.first_batch_id
        return self.batches[place] if 0 <= place < len(self.batches) else None

    def with_started(self, started: TopicsStarted) -> LedgerState:
        """The state after `started` is recorded."""
        return replace(
            self,
            next_offsets={**self.next_offsets, **started.start_offsets},
            topic_ids={**self.topic_ids, **started.topic_ids},
            cluster_id=started.cluster_id,
        )

    def planned(self, pipeline: str, key: BatchKey) -> BatchRecord:
        """The record of a batch.

        Raises:
            FencedGeneration: the batch's generation has ended. TerminalError: the batch was never planned.
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
            FencedGeneration: it was cancelled, or its table has taken the target's place.
            TerminalError: there is no such backfill.
        """
        assert self.is_whole, "a recent state knows no backfills"
        record = self.backfills.get(number)
        if record is None:
            raise TerminalError(
                what="there is no such backfill",
                where=f"{pipeline} backfill {number}",
                expected=f"one of {', '.join(map(str, self.backfills)) or 'none: nothing was backfilled yet'}",
                found=str(number),
                action=f"see `lakemark backfill {pipeline} --list`; a rebuilt ledger knows no backfills",
            )
        if record.outcome in ("cancelled", "swapped"):
            raise FencedGeneration(
                what=f"the backfill was {record.outcome}",
                where=f"{pipeline} backfill {number}",
                expected="a backfill that has not ended",
                found=record.outcome,
                action="nothing; if you want it after all, ask for a new one",
            )
        return record.backfill
