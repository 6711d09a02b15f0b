"""A machine that argues with the protocol (one state machine, so more than 300 lines).

Hypothesis interleaves planners, attempts, zombies, lost answers, settles, resets, skips, lost ledgers and rebuilds over
the pure functions. A tiny model says what must never be. It knows only records: how often each was applied and by
which generation, and which of them a person gave up. The world between the pure functions is in memory: a log with
markers, a ledger with compare-and-swap, Kafka's offsets. Every place where a process can stop is a rule of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from include.monitoring.ledger_digest import LedgerDigest
from include.protocol.batch import FENCE, Batch, BatchKey
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import (
    BatchMismatch,
    CountsDisagree,
    FencedGeneration,
    LakemarkError,
    LedgerBehindTarget,
    LedgerConflict,
    OffsetsExpired,
    TargetBehindLedger,
    TerminalError,
    TopicRecreated,
)
from include.protocol.generations import Origin, after_a_loss, fence_metadata, fenced_for, rebuild, restart, skip
from include.protocol.guard import Apply, guard
from include.protocol.ledger_events import (
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    LedgerSnapshot,
    PipelineAudited,
    TopicsStarted,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import to_row
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position, positions_to_begin_with
from include.protocol.planning import (
    NewBatch,
    PartitionExtent,
    SourceExtent,
    plan_next,
    start_topics,
    verify_source,
)
from include.protocol.proofs import Depth, Look
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import (
    LandedCommit,
    Settle,
    TargetView,
    settle,
    verify_ledger_not_behind,
    verify_target_not_behind,
)
from tests.pure.protocol.machine_tables import Beside, Writing
from tests.support.batches import COUNTS, NO_COUNTS, merged

NOW = datetime(2026, 1, 1, tzinfo=UTC)
P, TOPIC, PARTITIONS = "p", "t", 2
Record = tuple[int, int, int]  # the topic's incarnation, partition, offset


@dataclass
class Kafka:
    incarnation: int = 0
    starts: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def extent(self) -> SourceExtent:
        partitions = {
            TopicPartition(TOPIC, p): PartitionExtent(self.starts[p], self.ends[p]) for p in range(PARTITIONS)
        }
        return SourceExtent("cluster", {TOPIC: f"id-{self.incarnation}"}, partitions)


@dataclass
class Target:
    """A log with markers: Delta's, as far as the protocol sees it."""

    markers: dict[int, int] = field(default_factory=dict)  # by generation
    landed: list[LandedCommit] = field(default_factory=list)
    fences: list[str] = field(default_factory=list)  # metadata
    version: int = 0
    table_id: str = "id"
    doubled: bool = False  # another writer has put rows there twice: a MERGE changes more of them than it should

    def commit_of(self, key: BatchKey) -> LandedCommit | None:
        return next((c for c in self.landed if c.metadata.batch.key == key), None)

    def begun(self, generation: int) -> GenerationStarted | None:
        begun = [
            started for text in self.fences if (started := fenced_for(text, P)) and started.generation == generation
        ]
        return begun[-1] if begun else None

    def begun_after(self, generation: int) -> GenerationStarted | None:
        begun = [started for text in self.fences if (started := fenced_for(text, P)) is not None]
        later = [started for started in begun if started.generation > generation]
        return min(later, key=lambda started: started.generation, default=None)


@dataclass
class Planner:
    marker_before: int | None
    seen: int  # events in the ledger when it decided
    events: list[Event]


@dataclass
class Worker:
    """An attempt that has passed the guard and read its ranges."""

    batch: Batch
    state: LedgerState
    program: str = "P"
    writing: Writing | None = None  # it has looked at a table, and has not written it yet
    positions: dict[str, Position] = field(default_factory=dict)  # of the tables that it has landed

    @property
    def digest(self) -> str:
        return f"{self.batch.fingerprint} {self.program}"


class Protocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kafka, self.target = Kafka(), Target()
        self.ledger: list[Event] = []
        self.planners: list[Planner] = []
        self.workers: list[Worker] = []
        self.beside = Beside()
        self.keys: set[BatchKey] = set()  # of every task that Airflow may ever run again
        self.applied: Counter[tuple[int, Record]] = Counter()  # by generation
        self.given_up: set[Record] = set()
        self.gone: set[Record] = set()  # applied to a target that was lost
        self.lost_before = 0  # the generation that began because ledger and target were lost
        self.first: dict[tuple[int, int], int] = {}  # where reading began, by incarnation and partition

    # the shells, as thin as the real ones

    def marker(self, generation: int) -> int | None:
        return self.target.markers.get(generation)

    def decide_plan(self, marker_before: int | None) -> list[Event]:
        state = self.recent()
        verify_ledger_not_behind(P, state, marker_before)
        verify_target_not_behind(P, state, self.view(state.generation))
        source = self.kafka.extent()
        started = start_topics(state, source, "earliest")
        if any(table.markers.get(state.generation) == FENCE for table in self.beside.tables.values()):
            raise LedgerBehindTarget(what="", where="", expected="", found="", action="")
        heads = self.beside.heads(state.generation)
        plan = plan_next(P, state.with_started(started) if started else state, source, 7, heads=heads)
        planned = [BatchPlanned(plan.batch, plan.stands_on)] if isinstance(plan, NewBatch) else []
        return [*([started] if started else []), *planned]

    def view(self, generation: int) -> TargetView:
        is_fenced = generation == 1 or self.marker(generation - 1) == FENCE
        return TargetView(self.marker(generation), self.target.table_id, None, is_fenced)

    def settle_pending(self) -> None:
        pending = self.recent().pending
        if pending is not None:
            self.settle_batch(pending.batch.key)

    def settle_batch(self, key: BatchKey) -> None:
        record = self.recent(key).planned(P, key)
        marker = self.marker(key.generation)
        landed = self.target.commit_of(key) if marker is not None and marker >= key.batch_id else None
        decision = settle(record, marker, landed, None)
        if isinstance(decision, Settle):
            self.append([decision.event])
            if decision.problem is not None:
                raise decision.problem

    def recent(self, key: BatchKey | None = None) -> LedgerState:
        """What is read for planning and settling: from the newest kept state on, if that knows the batch."""
        kept = [n for n, event in enumerate(self.ledger) if isinstance(event, LedgerSnapshot)]
        state = fold(self.ledger[kept[-1] if kept else 0 :])
        return state if key is None or state.knows(key) else fold(self.ledger)

    def append(self, events: list[Event]) -> None:
        after = fold([*self.ledger, *events])  # raises if they cannot follow
        self.ledger += events
        if events and isinstance(events[-1], BatchCommitted) and events[-1].batch_id % 3 == 2:
            self.ledger.append(after.snapshot())
        for event in events:
            match event:
                case BatchPlanned(batch, _):
                    self.keys.add(batch.key)
                case TopicsStarted():
                    self.reading_begins(event.topic_ids, event.start_offsets)
                case GenerationStarted() if event.recreated:
                    self.reading_begins(event.topic_ids, event.start_offsets)

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
            if not seen:
                self.first[incarnation, tp.partition] = offset

    def record(self, planner: Planner) -> None:
        """The ledger's compare-and-swap: a planner that was overtaken decides again."""
        while planner.seen != len(self.ledger):
            planner.seen, planner.events = len(self.ledger), self.decide_plan(planner.marker_before)
        self.append(planner.events)

    def fence(self, started: GenerationStarted) -> None:
        if self.marker(started.generation - 1) == FENCE:
            return
        for table in self.beside.tables.values():
            table.fence(started.generation)
        self.fence_target(started)

    def fence_target(self, started: GenerationStarted) -> None:
        self.target.markers |= dict.fromkeys(range(1, started.generation), FENCE)
        self.target.fences.append(fence_metadata(P, started))
        self.target.version += 1

    def begin_generation(self, decide, crash: bool) -> None:
        """`GenerationChange.begin`."""
        state = fold(self.ledger)
        if self.marker(state.generation) != FENCE:
            with suppress(CountsDisagree):
                self.settle_pending()
            state = fold(self.ledger)
        marker = self.marker(state.generation)
        if marker == FENCE and (begun := self.target.begun_after(state.generation)) is not None:
            self.append([begun])
            return
        if marker is not None and marker > state.committed_through:
            verify_ledger_not_behind(P, state, marker)
        self.verify_ledger_not_lost(state)
        started = replace(
            decide(state),
            generation=1 + max(state.generation, self.beside.newest_generation()),
            table_id=self.target.table_id,
            positions=self.where_tables_must_stand(state),
        )
        self.fence(started)
        self.given_up |= {
            (self.kafka.incarnation, r.partition, offset)
            for r in started.skipped
            for offset in range(r.start_offset, r.end_offset)
        }
        if not crash:
            self.append([started])

    def continue_after_a_loss(self) -> None:
        """`new_beginnings.continue_after_a_loss`: a fresh ledger, and tables that know earlier batches."""
        newest, state = self.beside.newest_generation(), fold(self.ledger)
        self.verify_ledger_not_lost(state)
        if state.is_fresh and newest:
            started = replace(after_a_loss(newest, "", ""), positions=self.beside.heads(newest))
            self.beside.accept()
            for table in self.beside.tables.values():
                table.fence(started.generation)
            self.append([started])
            self.lost_before = started.generation

    def verify_ledger_not_lost(self, state: LedgerState) -> None:
        """`heads.verify_ledger_not_lost`."""
        if state.is_fresh and self.target.markers:
            raise LedgerBehindTarget(what="", where="", expected="", found="", action="")

    def where_tables_must_stand(self, state: LedgerState) -> dict[str, Position]:
        """As the last landed batch left them; as they are, if they lack that, or if the ledger knows nothing."""
        if state.is_fresh:
            self.beside.accept()
        return positions_to_begin_with(state.positions, self.beside.newest_heads(state.generation))

    # rules: what can happen

    @rule(partition=st.integers(0, PARTITIONS - 1), records=st.integers(1, 6))
    def records_arrive(self, partition: int, records: int) -> None:
        self.kafka.ends[partition] += records

    @rule()
    def a_planner_decides(self) -> None:
        with suppress(LakemarkError):
            self.continue_after_a_loss()
            self.settle_pending()
            before = self.marker(fold(self.ledger).generation)
            self.planners.append(Planner(before, len(self.ledger), self.decide_plan(before)))

    @precondition(lambda self: self.planners)
    @rule(data=st.data())
    def a_planner_records(self, data: st.DataObject) -> None:
        planner = self.planners.pop(data.draw(st.integers(0, len(self.planners) - 1)))
        with suppress(LakemarkError):
            self.record(planner)

    @rule(
        until=st.sampled_from(["planned", "read", "history landed", "quarantine landed", "landed", "settled"]),
        records=st.integers(0, 9),
    )
    def a_run(self, until: str, records: int) -> None:
        """Plan, merge and settle in a row, or killed on the way."""
        self.kafka.ends[records % PARTITIONS] += records
        with suppress(LakemarkError):
            self.one_batch(until)

    def one_batch(self, until: str) -> bool:
        """False if there is nothing to do."""
        self.continue_after_a_loss()
        self.settle_pending()
        before = self.marker(fold(self.ledger).generation)
        self.record(Planner(before, len(self.ledger), self.decide_plan(before)))
        state = fold(self.ledger)
        if state.pending is None or until == "planned":
            return state.pending is not None
        batch = state.pending.batch
        assert self.guarded(batch, state) is Apply
        verify_source(batch, self.kafka.extent())
        worker = Worker(batch, state)
        if until == "read":
            self.workers.append(worker)
            return True
        for name in self.beside.tables:
            if until == f"{name} landed":
                return True
            if not self.land_beside(worker, name):
                return True
        self.land(worker)
        if until == "settled":
            self.settle_batch(batch.key)
        return True

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), program=st.sampled_from("PQ"))
    def an_attempt_reads(self, data: st.DataObject, program: str) -> None:
        """Reads any batch that was ever planned: Airflow may clear any task at any time."""
        key = data.draw(st.sampled_from(sorted(self.keys)))
        with suppress(LakemarkError):
            state = fold(self.ledger)
            batch = state.planned(P, key).batch
            if self.guarded(batch, state) is Apply:
                verify_source(batch, self.kafka.extent())
                self.workers.append(Worker(batch, state, program))

    def guarded(self, batch: Batch, state: LedgerState) -> type:
        landed = self.target.commit_of(batch.key)
        fingerprint = landed.metadata.fingerprint if landed else None
        record = state.planned(P, batch.key)
        is_committed = record.commit is not None
        return type(guard(batch, self.marker(batch.generation), fingerprint, state.generation, is_committed))

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), answer_lost=st.booleans(), dies=st.booleans())
    def an_attempt_goes_on(self, data: st.DataObject, answer_lost: bool, dies: bool) -> None:
        """One step, however long it has slept: it looks at the next table, writes what it has decided, or commits the
        point."""
        place = data.draw(st.integers(0, len(self.workers) - 1))
        worker = self.workers[place]
        left = [name for name in self.beside.tables if name not in worker.positions]
        with suppress(LakemarkError):
            if not left:
                del self.workers[place]
                self.land(worker, answer_lost)
            elif worker.writing is None:
                self.look_beside(worker, left[0])
            else:
                self.write_beside(worker, worker.writing)
                worker.writing = None
                if dies:
                    del self.workers[place]

    def look_beside(self, worker: Worker, name: str) -> None:
        """`guarded` comes first: what the point holds is left alone."""
        if self.guarded(worker.batch, worker.state) is not Apply:
            self.workers.remove(worker)
            return
        found = self.beside.looked(name, worker.batch.key, worker.state.positions, worker.digest)
        if found is None:
            self.workers.remove(worker)
        elif isinstance(found, Position):
            worker.positions[name] = found
        else:
            worker.writing = found

    def write_beside(self, worker: Worker, writing: Writing) -> None:
        row = (worker.batch.key, worker.digest) if worker.batch.ranges else None
        position = self.beside.write(writing, worker.batch.key, worker.digest, row)
        if position is not None:
            worker.positions[writing.table] = position

    def land_beside(self, worker: Worker, name: str) -> bool:
        """Looks and writes at once. False: the batch has landed long since."""
        found = self.beside.looked(name, worker.batch.key, worker.state.positions, worker.digest)
        if isinstance(found, Writing):
            self.write_beside(worker, found)
        elif found is not None:
            worker.positions[name] = found
        return found is not None

    @rule(chunk=st.integers(0, 9), killed=st.booleans())
    def a_chunk_lands(self, chunk: int, killed: bool) -> None:
        with suppress(LakemarkError):
            self.beside.chunk_lands(chunk, fold(self.ledger), killed)

    @rule(name=st.sampled_from(["history", "quarantine"]))
    def maintenance(self, name: str) -> None:
        self.beside.tables[name].touch()

    @rule(table=st.sampled_from("ab"), depth=st.sampled_from(["log", "rows"]), findings=st.integers(0, 1))
    def an_audit_is_recorded(self, table: str, depth: Depth, findings: int) -> None:
        state = fold(self.ledger)
        look = Look(state.generation, state.committed_through, str(len(self.ledger)), findings)
        self.append([PipelineAudited(state.generation, state.committed_through, "me", {table: {depth: look}})])

    def land(self, worker: Worker, answer_lost: bool = False) -> None:
        """Delta lands a marker that is higher than the one that is there, or nothing."""
        batch, generation = worker.batch, worker.batch.generation
        marker = self.marker(generation)
        if marker is not None and marker >= batch.batch_id:
            if not answer_lost:
                with suppress(LakemarkError):
                    self.guarded(batch, worker.state)
            return
        if batch.batch_id == 0 and worker.state.generations and worker.state.generations[-1].makes_target:
            self.fence_target(worker.state.generations[-1])
        self.target.markers[generation] = batch.batch_id
        self.target.version += 1
        counts = COUNTS if batch.ranges else NO_COUNTS
        metadata = replace(
            CommitMetadata.of(batch, "target", counts, worker.state.next_offsets, "a", "0"),
            digest=worker.digest,
            positions=worker.positions,
        )
        if batch.ranges:
            self.beside.landed.add((batch.key, worker.digest))
        merge = merged(0, 0) if not batch.ranges else merged(5, 6) if self.target.doubled else merged()
        landed = LandedCommit(self.target.version, "now", metadata, merge, self.target.table_id)
        self.target.landed.append(landed)
        for r in batch.ranges:
            for offset in range(r.start_offset, r.end_offset):
                self.applied[generation, (number(batch.topic_ids), r.partition, offset)] += 1

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def a_task_settles(self, data: st.DataObject) -> None:
        with suppress(LakemarkError):
            self.settle_batch(data.draw(st.sampled_from(sorted(self.keys))))

    @rule(
        act=st.sampled_from(["as told", "as told", "reset", "earliest", "skip", "rebuild"]),
        back=st.integers(0, 3),
        crash=st.booleans(),
    )
    def a_person_acts(self, act: str, back: int, crash: bool) -> None:
        """Does what the error says, or something else; is killed half way, or not."""
        with suppress(LakemarkError):
            match act:
                case "as told":
                    self.as_told(crash)
                case "reset":
                    self.begin_generation(
                        lambda state: self.restarted(state, state.committed_through + 1 - back), crash
                    )
                case "earliest":
                    self.begin_generation(lambda state: self.restarted(state, "earliest"), crash)
                case "skip":
                    self.begin_generation(self.skip_decision, crash)
                case "rebuild":
                    self.rebuild(crash)

    def restarted(self, state: LedgerState, origin: Origin) -> GenerationStarted:
        origin = origin if isinstance(origin, str) else max(0, origin)
        return restart(P, state, self.kafka.extent(), origin, False, "", "")

    def as_told(self, crash: bool = False) -> bool:
        """Runs one batch, or does what its error says. Returns False if there is nothing to do."""
        try:
            return self.one_batch("settled")
        except CountsDisagree:
            pass  # it is recorded: the next run goes on after it
        except (LedgerBehindTarget, BatchMismatch, LedgerConflict):
            if not self.rebuild(crash):
                self.begin_from_earliest(crash)
        except OffsetsExpired:
            self.begin_generation(self.skip_decision, crash)
        except (FencedGeneration, TopicRecreated, TargetBehindLedger):  # the first: whatever was decided is ended
            self.begin_from_earliest(crash)
        return True

    def begin_from_earliest(self, crash: bool) -> None:
        try:
            self.begin_generation(lambda state: self.restarted(state, "earliest"), crash)
        except OffsetsExpired:
            self.begin_generation(self.skip_decision, crash)

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

    @rule(
        what=st.sampled_from(["retention", "retention", "topic", "ledger", "target", "both", "another writer"]),
        keep=st.integers(0, 8),
        data=st.data(),
    )
    def a_disaster(self, what: str, keep: int, data: st.DataObject) -> None:
        match what:
            case "retention":
                p = keep % PARTITIONS
                self.kafka.starts[p] = max(self.kafka.starts[p], self.kafka.ends[p] - keep)
            case "topic":
                self.kafka = Kafka(self.kafka.incarnation + 1)
            case "another writer":
                self.target.doubled = not self.target.doubled
            case "ledger":  # lost, or replaced by an old copy
                del self.ledger[data.draw(st.integers(0, len(self.ledger))) :]
                known = {c.metadata.batch.key for c in self.target.landed}
                if not known or any(key not in known for key, _ in self.beside.landed):
                    self.beside.accept()
            case "target" | "both":
                self.target = Target(table_id=f"{self.target.table_id}'")
                self.gone |= {record for _, record in self.applied}
                self.applied.clear()
                settled = {BatchKey(e.generation, e.batch_id) for e in self.ledger if isinstance(e, BatchCommitted)}
                self.beside.forget(lambda key: key not in settled)
                if what == "both":
                    self.ledger = []
                    self.beside.accept()

    def rebuild(self, crash: bool) -> bool:
        """`GenerationChange.rebuild`; the rows' offsets are the highest of each partition, at worst too low."""
        try:
            with suppress(CountsDisagree):
                self.settle_pending()
            state = fold(self.ledger)
            verify_ledger_not_behind(P, state, self.marker(state.generation))
            self.verify_ledger_not_lost(state)
            return False  # it is sound
        except LakemarkError:
            pass
        generation = max(
            [1, self.beside.newest_generation(), *(c.metadata.batch.generation for c in self.target.landed)]
        )
        while self.marker(generation) == FENCE:
            generation += 1
        marker = self.marker(generation)
        landed = None if marker is None else self.target.commit_of(BatchKey(generation, marker))
        begun = self.target.begun(generation) if marker is None else None
        started = rebuild(generation, landed, begun, {}, self.kafka.extent(), "", "")
        named = landed.metadata.positions if landed else started.positions
        positions = positions_to_begin_with(named or {}, self.beside.newest_heads(generation))
        started = replace(started, table_id=self.target.table_id, positions=positions)
        self.fence(started)
        self.ledger = []
        if not crash:
            self.append([started])
        return True

    # what must hold

    @invariant()
    def i3_nothing_is_applied_twice_by_a_generation(self) -> None:
        assert all(times == 1 for times in self.applied.values())
        keys = [c.metadata.batch.key for c in self.target.landed]
        assert len(keys) == len(set(keys))

    @invariant()
    def i7_nothing_is_passed_over(self) -> None:
        """Every record below an applied one was applied too, or a person gave it up."""
        known = {record for _, record in self.applied} | self.given_up | self.gone
        for incarnation in range(self.kafka.incarnation + 1):
            for partition in range(PARTITIONS):
                offsets = {o for i, p, o in known if (i, p) == (incarnation, partition)}
                first = self.first.get((incarnation, partition), 0)
                assert offsets >= set(range(first, max(offsets, default=-1) + 1)), (incarnation, partition)

    @invariant()
    def a_recent_state_says_what_the_whole_ledger_says(self) -> None:
        whole, recent = fold(self.ledger), self.recent()
        assert recent.batches == whole.batches[recent.first_batch_id :] or not recent.is_whole
        for name in ("generation", "next_batch_id", "committed_through", "next_offsets", "committed_offsets"):
            assert getattr(recent, name) == getattr(whole, name), name
        for name in ("topic_ids", "cluster_id", "pending", "last_commit", "target_version", "proofs"):
            assert getattr(recent, name) == getattr(whole, name), name

    @invariant()
    def the_page_sees_what_the_ledger_says(self) -> None:
        """The digest, brought up to date in two steps, against the fold."""
        state, half = fold(self.ledger), len(self.ledger) // 2
        rows = [{**to_row(e), "sequence": n, "recorded_at": NOW} for n, e in enumerate(self.ledger)]
        digest = LedgerDigest().after(rows[:half]).after(rows[half:])
        assert (digest.generation, digest.sequence) == (state.generation, len(self.ledger))
        assert (digest.next_offsets, digest.committed_offsets) == (state.next_offsets, state.committed_offsets)
        assert (digest.pending, digest.last) == (state.pending, state.batches[-1] if state.batches else None)
        assert digest.proofs == state.proofs

    def teardown(self) -> None:
        """Whatever has happened, doing what the errors say brings the pipeline to the end of its topic."""
        for _ in range(300):
            if not self.as_told():
                break
        else:
            raise AssertionError("the pipeline does not come to an end")
        self.i3_nothing_is_applied_twice_by_a_generation()
        self.i7_nothing_is_passed_over()
        self.beside.verify()  # without a further batch
        known = {record for _, record in self.applied} | self.given_up | self.gone
        for partition in range(PARTITIONS):
            for offset in range(self.kafka.starts[partition], self.kafka.ends[partition]):
                assert (self.kafka.incarnation, partition, offset) in known


def number(topic_ids: Mapping[str, str]) -> int:
    """The number of a topic's incarnation."""
    return int(topic_ids[TOPIC].removeprefix("id-"))


_SETTINGS = settings(stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(_SETTINGS, max_examples=300, derandomize=True)  # a change passes or fails by itself


@pytest.mark.slow
class TestProtocolWithFreshSeeds(Protocol.TestCase):  # type: ignore[name-defined, misc]
    """Looks for what nobody has found yet."""

    settings = settings(_SETTINGS, max_examples=5_000)
