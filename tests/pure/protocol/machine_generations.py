"""What ends and begins generations, over the pure functions, as thin as the real shells. And the ledger under it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from include.participants.lacks import lack_of
from include.protocol.acceptance import Lack, lacks_of_the_target, verify_accepted
from include.protocol.batch import FENCE, BatchKey
from include.protocol.beginnings import positions_to_begin_with, unnamed_after, unnamed_by
from include.protocol.errors import (
    CountsDisagree,
    LakemarkError,
    LedgerBehindTarget,
    OffsetsExpired,
    TargetBehindLedger,
    TerminalError,
)
from include.protocol.generations import Origin, after_a_loss, fence_metadata, no_later_than, rebuild, restart, skip
from include.protocol.ledger_events import (
    LOSS,
    BackfillEnded,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    LedgerSnapshot,
    TopicsStarted,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import known, told_since, with_left_out
from include.protocol.participants import Positions
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.reading_began import reading_began
from include.protocol.settlement import Settle, TargetView, rollback_between, settle, verify_ledger_not_behind
from tests.pure.protocol.machine_tables import Beside, Row
from tests.pure.protocol.machine_world import (
    PARTITIONS,
    TOPIC,
    Kafka,
    P,
    Planner,
    Record,
    Target,
    Worker,
    number,
    records_in,
    records_within,
)

_OF_BACKFILLS = (BackfillPlanned, BackfillEnded)


class Generations:
    """A pipeline's ledger, and the commands that change its generation."""

    def __init__(self) -> None:
        super().__init__()
        self.kafka, self.target = Kafka(), Target()
        self.ledger: list[Event] = []
        self.planners: list[Planner] = []
        self.workers: list[Worker] = []
        self.beside = Beside()
        self.keys: set[BatchKey] = set()  # of every task that Airflow may ever run again
        self.records: dict[str, set[Record]] = {}  # by the fingerprint of the batch that reads them
        self.applied: Counter[tuple[int, Record]] = Counter()  # by generation
        self.given_up: set[Record] = set()
        self.accepted: dict[str, set[Record]] = {}  # by table: what it may lack, since a person has accepted it
        self.gone: set[Record] = set()  # applied to a target that was lost
        self.ledger_was_lost = False  # then a file may leave a table out under numbers that were used before
        self.lost_before = 0  # the generation that began because ledger and target were lost
        self.first: dict[tuple[int, int], int] = {}  # where reading began, by incarnation and partition

    def marker(self, generation: int) -> int | None:
        return self.target.markers.get(generation)

    def recent(self, key: BatchKey | None = None) -> LedgerState:
        """What is read for planning and settling: from the newest kept state on, without backfills, if that knows the
        batch."""
        kept = [n for n, event in enumerate(self.ledger) if isinstance(event, LedgerSnapshot)]
        since = [e for e in self.ledger[kept[-1] :] if not isinstance(e, _OF_BACKFILLS)] if kept else self.ledger
        state = fold(since)
        return state if key is None or state.knows(key) else fold(self.ledger)

    def append(self, events: list[Event]) -> None:
        after = fold([*self.ledger, *events])  # raises if they cannot follow
        self.ledger += events
        if events and isinstance(events[-1], BatchCommitted) and events[-1].batch_id % 3 == 2:
            self.ledger.append(after.snapshot())
        for event in events:
            match event:
                case BatchPlanned(batch):
                    self.keys.add(batch.key)
                    self.records[batch.fingerprint] = records_in(batch)
                case TopicsStarted():
                    self.reading_begins(event.topic_ids, event.start_offsets)
                case GenerationStarted() if event.recreated or event.origin == LOSS:
                    self.reading_begins(event.topic_ids, event.start_offsets)

    def records_of(self, row: Row) -> set[Record]:
        """The records that a row of a table before the point comes from."""
        return self.records.get(row[1].partition(" ")[0], set())

    def reading_begins(self, topic_ids: Mapping[str, str], offsets: Mapping[TopicPartition, int]) -> None:
        """Nothing was promised before that. A ledger begins anew if it is lost before any of its batches has landed, or
        together with the target, which late attempts of the lost generations may have made since."""
        incarnation = number(topic_ids)
        for tp, offset in offsets.items():
            seen = any(
                record[:2] == (incarnation, tp.partition)
                for generation, record in self.applied
                if generation >= self.lost_before
            )
            # What Kafka no longer holds then, nobody promises: a planner may have slept over a loss.
            if not seen and incarnation == self.kafka.incarnation:
                self.first[incarnation, tp.partition] = max(offset, self.kafka.starts[tp.partition])

    def view(self, state: LedgerState) -> TargetView | None:
        if not self.target.is_there:
            return None
        generation, restored = state.generation, self.target.restored(state.target_version, self.target.version)
        is_fenced = generation == 1 or self.marker(generation - 1) == FENCE
        return TargetView(self.marker(generation), self.target.table_id, restored, is_fenced)

    def settle_pending(self) -> None:
        pending = self.recent().pending
        if pending is not None:
            self.settle_batch(pending.batch.key)

    def settle_batch(self, key: BatchKey) -> None:
        state = self.recent(key)
        record, known = state.planned(P, key), state.known_before(key.batch_id)
        marker, rollback = self.marker(key.generation), None
        landed = self.target.commit_of(key) if marker is not None and marker >= key.batch_id else None
        if landed is not None:
            since = known.target_version if known is not None else None
            rollback = rollback_between(known, landed, self.target.restored(since, landed.table_version))
        decision = settle(record, marker, landed, rollback)
        if isinstance(decision, Settle):
            self.append([decision.event])
            if decision.problem is not None:
                raise decision.problem

    def begin_generation(self, decide, crash: bool, accept: bool = False) -> None:
        """`GenerationChange.begin`. Args: accept: tables that lack rows, by their names."""
        state = fold(self.ledger)
        if self.marker(state.generation) != FENCE:
            with suppress(CountsDisagree):
                self.settle_pending()
            state = fold(self.ledger)
        marker = self.marker(state.generation)
        if marker == FENCE and (begun := self.target.begun_after(state.generation)) is not None:
            self.append([told_since(begun, state, frozenset())])
            return
        if marker is not None and marker > state.committed_through:
            verify_ledger_not_behind(P, state, marker)
        self.verify_ledger_not_lost(state)
        if state.is_fresh:
            self.beside.accept()
        decided = decide(state)
        heads = self.beside.heads_to_begin_with(state.generation, state.positions, unnamed_by(state))
        lacks = self.lacks_beside(state, known(state, heads), heads)
        lacking = [*lacks_of_the_target(P, "target", state, self.view(state)), *lacks]
        self.verify_accepted(decided, state, lacking, accept=accept)
        positions = positions_to_begin_with(state.positions, heads, {lack.table for lack in lacks})
        started = replace(
            decided,
            generation=1 + max(state.generation, self.beside.newest_generation()),
            target_version=self.target.version + decided.is_promotion,
            table_id=self.target.table_id,
            positions=positions,
        )
        self.beside.unknown |= self.beside.left_out - positions.keys()
        self.fence(started)
        self.given_up |= records_within(self.kafka.incarnation, started.skipped)
        if not crash:
            self.append([started])

    def fence(self, started: GenerationStarted) -> None:
        if self.marker(started.generation - 1) != FENCE:
            self.fence_target(started)
        for table in self.beside.named.values():
            table.fence(started.generation)

    def fence_target(self, started: GenerationStarted) -> None:
        self.target.markers |= dict.fromkeys(range(1, started.generation), FENCE)
        self.target.is_there = True
        self.target.fences.append(fence_metadata(P, started))
        self.target.version += 1

    def continue_after_a_loss(self, crash: bool = False) -> None:
        """As in `new_beginnings`: a fresh ledger, and tables that know earlier batches."""
        newest, state = self.beside.newest_generation(), fold(self.ledger)
        self.verify_ledger_not_lost(state)
        if state.is_fresh and newest:
            started = after_a_loss(newest, [], self.kafka.extent(), "", "")
            started = replace(started, positions=self.beside.heads(newest))
            self.beside.accept()
            self.beside.unknown |= self.beside.left_out
            self.append([started])
            self.lost_before = started.generation
            state = fold(self.ledger)
        if not crash and state.generations and state.generations[-1].makes_target and state.committed_through < 0:
            for table in self.beside.named.values():
                table.fence(state.generation)

    def verify_ledger_not_lost(self, state: LedgerState) -> None:
        """`heads.verify_ledger_not_lost`."""
        if state.is_fresh and self.target.markers:
            raise LedgerBehindTarget(what="", where="", expected="", found="", action="")

    def verify_accepted(self, started: GenerationStarted, state: LedgerState, lacks: list[Lack], accept: bool) -> None:
        """Args: accept: all tables that lack rows."""
        accepted = {lack.table for lack in lacks} if accept else set()
        gone = reading_began(self.ledger, state).lost_before_all(started.start_offsets)
        verify_accepted(P, state, started, lacks=lacks, accepted=accepted, gone=gone)
        for name in accepted:
            self.accepted.setdefault(name, set()).update(*self.records.values())

    def lacks_beside(self, state: LedgerState, named: Positions, heads: Positions) -> list[Lack]:
        """`lacks.lacks_of`."""
        tables = self.beside.tables
        found = (lack_of(n, tables[n], named[n], head=h, state=state) for n, h in heads.items() if n in named)
        return [*filter(None, found)]

    def restarted(self, state: LedgerState, origin: Origin) -> GenerationStarted:
        origin = origin if isinstance(origin, str) else max(0, origin)
        return restart(P, state, self.kafka.extent(), origin, False, "", "")

    def begin_from_earliest(self, crash: bool) -> None:
        try:
            self.begin_generation(lambda state: self.restarted(state, "earliest"), crash)
        except OffsetsExpired:
            self.skip_as_told(crash)
        except TargetBehindLedger:  # Kafka has dropped what a table lacks
            self.begin_generation(lambda state: self.restarted(state, "earliest"), crash, accept=True)

    def skip_as_told(self, crash: bool) -> None:
        """Gives up what has expired; where a table lacks more, the error gives two commands."""
        try:
            self.begin_generation(self.skip_decision, crash)
        except TargetBehindLedger:
            self.begin_generation(self.skip_decision, crash, accept=True)
            self.begin_from_earliest(crash)

    def skip_decision(self, state: LedgerState) -> GenerationStarted:
        offsets = state.committed_offsets
        lost = [
            OffsetRange(TOPIC, p, offsets[TopicPartition(TOPIC, p)], self.kafka.starts[p])
            for p in range(PARTITIONS)
            if offsets.get(TopicPartition(TOPIC, p), 10**9) < self.kafka.starts[p]
        ]
        if not lost:
            raise TerminalError(what="", where="", expected="", found="", action="")
        return skip(P, state, self.kafka.extent(), lost, "", "")

    def rebuild(self, crash: bool, accept: bool = False) -> bool:
        """`LedgerRebuild.rebuild`; the rows' offsets are the highest of each partition, at worst too low."""
        try:
            with suppress(CountsDisagree):
                self.settle_pending()
            state = fold(self.ledger)
            verify_ledger_not_behind(P, state, self.marker(state.generation))
            self.verify_ledger_not_lost(state)
            return False  # it is sound
        except LakemarkError:
            pass
        generation = max(1, self.beside.newest_generation(), *(c.metadata.batch.generation for c in self.target.landed))
        while self.marker(generation) == FENCE:
            generation += 1
        marker = self.marker(generation)
        landed = None if marker is None else self.target.commit_of(BatchKey(generation, marker))
        begun = self.target.begun(generation) if marker is None else None
        since = landed.table_version if landed else begun.target_version if begun else None
        stood = named = landed.metadata.positions if landed else begun.positions if begun else {}
        offsets = {}
        if self.target.restored(since, self.target.version) is not None:
            offsets = landed.metadata.next_offsets if landed else begun.start_offsets if begun else {}
            landed, begun = self.target.left()
            stood = landed.metadata.positions if landed else begun.positions if begun else stood
        started = no_later_than(rebuild(generation, landed, begun, {}, self.kafka.extent(), "", ""), offsets)
        ended = LedgerState(generation=generation, is_whole=False)
        unnamed = unnamed_after(generation, marker, named or {})
        heads = self.beside.heads_to_begin_with(generation, named or {}, unnamed)
        stood = with_left_out(stood or {}, heads, landed.metadata.batch.key if landed else None)
        self.verify_accepted(started, ended, self.lacks_beside(ended, stood, heads), accept=accept)
        lacks = self.lacks_beside(ended, named or {}, heads)
        positions = positions_to_begin_with(named or {}, heads, {lack.table for lack in lacks})
        at = {"target_version": self.target.version, "table_id": self.target.table_id}
        started = replace(started, **at, positions=positions)
        self.fence(started)
        self.ledger = []
        if not crash:
            self.append([started])
        return True
