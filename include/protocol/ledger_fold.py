"""The fold: makes a state of a ledger's events, and refuses events that contradict each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from include.protocol.batch import Batch
from include.protocol.ledger_events import (
    FIRST_GENERATION,
    AttemptEnded,
    AttemptStarted,
    BackfillEnded,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    LedgerSnapshot,
    MaintenanceEnded,
    PipelineMoved,
    TablesLeftOut,
    TopicsStarted,
    TurnOver,
    TurnTaken,
)
from include.protocol.ledger_records import BackfillRecord, BatchRecord, contradiction
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Positions
from include.protocol.proofs import PipelineAudited, Proofs, joined
from include.protocol.ranges import TopicPartition
from include.protocol.sinks import Sinks, SinkTold, with_told


def fold(events: Iterable[Event]) -> LedgerState:
    """The state after `events`, which are in order. It is a recent state if they begin with a `LedgerSnapshot`.

    Raises:
        LedgerConflict: the protocol cannot have made them (a gap, an overlap, a batch planned twice ...).
    """
    folding = _Folding()
    for event in events:
        folding.add(event)
    return LedgerState(
        generation=folding.generation,
        batches=tuple(folding.batches),
        next_offsets=folding.next_offsets,
        topic_ids=folding.topic_ids,
        cluster_id=folding.cluster_id,
        generations=tuple(folding.generations),
        backfills=folding.backfills,
        first_batch_id=folding.first_batch_id,
        is_whole=folding.is_whole,
        proofs=folding.proofs,
        left_out=folding.left_out,
        sinks=folding.sinks,
        told=folding.told,
        maintained_at=folding.maintained_at,
        turns=folding.turns,
        moved=folding.moved,
    )


@dataclass
class _Folding:
    """The state while it grows. Batches are in a list, so that ten thousand fold in linear time."""

    generation: int = FIRST_GENERATION
    batches: list[BatchRecord] = field(default_factory=list)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    generations: list[GenerationStarted] = field(default_factory=list)
    backfills: dict[int, BackfillRecord] = field(default_factory=dict)
    first_batch_id: int = 0
    is_whole: bool = True
    proofs: Proofs = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    sinks: Sinks = field(default_factory=dict)
    told: dict[TopicPartition, int] = field(default_factory=dict)
    turns: dict[TurnOver, TurnTaken] = field(default_factory=dict)
    moved: PipelineMoved | None = None
    maintained_at: str | None = None
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
            case BatchPlanned():
                self._plan(event.batch, event.stands_on)
            case LedgerSnapshot():
                self._take_snapshot(event)
            case BackfillPlanned(backfill):
                if backfill.number in self.backfills:
                    raise contradiction(f"backfill {backfill.number}", "planned once", "planned twice")
                self.backfills[backfill.number] = BackfillRecord(backfill)
            case BackfillEnded():
                record = self.backfills.get(event.number)
                if record is None or record.outcome is not None:
                    raise contradiction(event, "a backfill that has not ended", "none" if record is None else "an end")
                self.backfills[event.number] = replace(record, outcome=event.outcome)
            case TablesLeftOut():
                if event.generation != self.generation:
                    raise contradiction(event, f"generation {self.generation}", f"generation {event.generation}")
                self.left_out |= {*event.tables}
            case TurnTaken():
                if event.until is not None:
                    self.turns[event.over] = event
                elif (turn := self.turns.get(event.over)) is not None and turn.holder == event.holder:
                    del self.turns[event.over]
            case PipelineMoved():
                self.moved = event
            case PipelineAudited():
                self.proofs = joined(self.proofs, event.looks)
            case MaintenanceEnded():
                self.maintained_at = event.ended_at
            case SinkTold():
                self.sinks = with_told(self.sinks, event)
            case AttemptStarted() | AttemptEnded() | BatchCommitted():
                if event.generation < self.generation:
                    return  # a late event from before a reset
                place = event.batch_id - self.first_batch_id
                if place < 0 and event.generation == self.generation and event.batch_id >= 0:
                    return  # a late event of a batch that was committed before this fold begins
                if event.generation > self.generation or not 0 <= place < len(self.batches):
                    raise contradiction(event, "a planned batch", f"batches to {self._next_batch_id - 1}")
                self.batches[place] = self.batches[place].after(event)

    @property
    def _next_batch_id(self) -> int:
        return self.first_batch_id + len(self.batches)

    def _take_snapshot(self, event: LedgerSnapshot) -> None:
        """A snapshot that comes first is where the state starts from. A later one must agree with the events before."""
        batch = event.batch
        if not self.empty:
            record = self.batches[-1] if self.batches else None
            known = (record and (record.batch, record.commit), self.next_offsets, self.topic_ids, self.cluster_id)
            kept = ((batch, event.commit), dict(event.next_offsets), dict(event.topic_ids), event.cluster_id)
            beside = self.proofs, self.left_out, self.sinks, self.told, self.maintained_at
            kept_beside = event.proofs, event.left_out, event.sinks, dict(event.told), event.maintained_at
            if (*known, *beside) != (*kept, *kept_beside):
                raise contradiction(f"snapshot after {batch}", "what the events before it add up to", "something else")
            return
        self.is_whole, self.generation, self.first_batch_id = False, batch.generation, batch.batch_id
        self.batches = [BatchRecord(batch, (), event.commit)]
        self.next_offsets, self.topic_ids = dict(event.next_offsets), dict(event.topic_ids)
        self.cluster_id, self.proofs, self.left_out = event.cluster_id, event.proofs, event.left_out
        self.sinks, self.told, self.maintained_at = event.sinks, dict(event.told), event.maintained_at

    def _begin(self, event: GenerationStarted) -> None:
        """Numbers only grow. One that another ledger of this pipeline has had is left out."""
        if event.generation <= self.generation:
            raise contradiction(event, f"a generation after {self.generation}", f"generation {event.generation}")
        self.generation, self.batches, self.first_batch_id = event.generation, [], 0
        self.next_offsets, self.topic_ids = dict(event.start_offsets), dict(event.topic_ids)
        self.cluster_id = event.cluster_id
        self.left_out = frozenset()  # its positions say what they lacked
        if event.told or not event.goes_on:
            self.told = dict(event.told)
        self.generations.append(event)

    def _start(self, event: TopicsStarted) -> None:
        known = sorted(event.topic_ids.keys() & self.topic_ids.keys())
        if event.generation != self.generation or known:
            raise contradiction(event, "topics that were not read before", f"a second start of {', '.join(known)}")
        self.next_offsets.update(event.start_offsets)
        self.topic_ids.update(event.topic_ids)
        self.cluster_id = event.cluster_id

    def _plan(self, batch: Batch, stands_on: Positions) -> None:
        if batch.generation != self.generation or batch.batch_id != self._next_batch_id:
            raise contradiction(batch, f"generation {self.generation} batch {self._next_batch_id}", "this plan")
        if self.batches and self.batches[-1].commit is None:
            raise contradiction(batch, f"batch {self._next_batch_id - 1} committed first", "this plan")
        for r in batch.ranges:
            start = self.next_offsets.get(r.topic_partition, r.start_offset)
            if r.start_offset != start:
                raise contradiction(batch, f"{r.topic_partition} from {start}", str(r))
            self.next_offsets[r.topic_partition] = r.end_offset
        self.topic_ids.update(batch.topic_ids)
        self.cluster_id = batch.cluster_id
        self.batches.append(BatchRecord(batch, stands_on=stands_on))
