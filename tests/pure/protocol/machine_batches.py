"""A batch's way through planner, attempt and settling, over the pure functions, as thin as the real shells."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from include.participants.heads import verify_not_rolled_back
from include.protocol.batch import FENCE, Batch
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
    TopicRecreated,
)
from include.protocol.guard import Apply, guard, verify_still_planned
from include.protocol.ledger_events import BatchPlanned, Event
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position, Where
from include.protocol.planning import NewBatch, plan_next, start_topics, verify_source
from include.protocol.settlement import LandedCommit, verify_ledger_not_behind, verify_target_not_behind
from tests.pure.protocol.machine_generations import Generations
from tests.pure.protocol.machine_tables import Writing
from tests.pure.protocol.machine_world import P, Planner, Worker, records_in
from tests.support.batches import COUNTS, NO_COUNTS, merged


class Batches(Generations):
    """A pipeline at work."""

    def decide_plan(self, marker_before: int | None) -> list[Event]:
        state = self.recent()
        verify_ledger_not_behind(P, state, marker_before)
        verify_target_not_behind(P, state, self.view(state))
        source = self.kafka.extent()
        started = start_topics(state, source, "earliest")
        if any(table.markers.get(state.generation) == FENCE for table in self.beside.named.values()):
            raise LedgerBehindTarget(what="", where="", expected="", found="", action="")
        for name, table in self.beside.named.items():
            verify_not_rolled_back(table, state.positions.get(name), Where(P, name))
        heads = self.beside.heads(state.generation)
        plan = plan_next(P, state.with_started(started) if started else state, source, 7, heads=heads)
        planned = [BatchPlanned(plan.batch, plan.stands_on)] if isinstance(plan, NewBatch) else []
        return [*([started] if started else []), *planned]

    def record(self, planner: Planner) -> None:
        """The ledger's compare-and-swap: a planner that was overtaken decides again."""
        while planner.seen != len(self.ledger):
            planner.seen, planner.events = len(self.ledger), self.decide_plan(planner.marker_before)
        self.append(planner.events)

    def one_batch(self, until: str) -> bool:
        """False if there is nothing to do."""
        self.continue_after_a_loss(crash=until == "begun")
        if until == "begun":
            return True
        self.settle_pending()
        before = self.marker(fold(self.ledger).generation)
        self.record(Planner(before, len(self.ledger), self.decide_plan(before)))
        state = fold(self.ledger)
        if state.pending is None or until == "planned":
            return state.pending is not None
        batch = state.pending.batch
        assert self.guarded(batch, state) is Apply
        verify_source(batch, self.kafka.extent())
        worker = Worker(batch, state, writes=(*self.beside.named,))
        if until == "read":
            self.workers.append(worker)
            return True
        for name in worker.writes:
            if until == f"{name} landed":
                return True
            if not self.land_beside(worker, name):
                return True
        self.land(worker)
        if until == "settled":
            self.settle_batch(batch.key)
        return True

    def guarded(self, batch: Batch, state: LedgerState) -> type:
        landed = self.target.commit_of(batch.key)
        fingerprint = landed.metadata.fingerprint if landed else None
        record = state.planned(P, batch.key)
        is_committed = record.commit is not None
        return type(guard(batch, self.marker(batch.generation), fingerprint, state.generation, is_committed))

    def looked(self, worker: Worker, name: str) -> Writing | Position | None:
        chain, begun = worker.state.planned(P, worker.batch.key).stands_on, bool(worker.state.generations)
        return self.beside.looked(name, worker.batch, chain, worker.digest, begun=begun)

    def look_beside(self, worker: Worker, name: str) -> None:
        """`guarded` comes first: what the point holds is left alone."""
        if self.guarded(worker.batch, worker.state) is not Apply:
            self.workers.remove(worker)
            return
        found = self.looked(worker, name)
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
        found = self.looked(worker, name)
        if isinstance(found, Writing):
            self.write_beside(worker, found)
        elif found is not None:
            worker.positions[name] = found
        return found is not None

    def land(self, worker: Worker, answer_lost: bool = False) -> None:
        """Delta lands a marker that is higher than the one that is there, or nothing."""
        batch, generation = worker.batch, worker.batch.generation
        marker = self.marker(generation)
        if marker is not None and marker >= batch.batch_id:
            if not answer_lost:
                with suppress(LakemarkError):
                    self.guarded(batch, worker.state)
            return
        self.verify_still_planned(worker)
        if batch.batch_id == 0 and worker.state.generations and self.marker(generation - 1) != FENCE:
            self.fence_target(worker.state.generations[-1])
        self.target.is_there = True
        self.target.markers[generation] = batch.batch_id
        self.target.version += 1
        counts = COUNTS if batch.ranges else NO_COUNTS
        metadata = replace(
            CommitMetadata.of(batch, "target", counts, worker.state.next_offsets, "a", "0"),
            digest=worker.digest,
            positions={**self.positions_without_it(worker), **worker.positions},
        )
        if batch.ranges:
            row = (batch.key, worker.digest)
            self.beside.landed.add(row)
            for name in self.beside.tables.keys() - set(worker.writes):
                self.beside.missing.setdefault(name, set()).add(row)
        merge = merged(0, 0) if not batch.ranges else merged(5, 6) if self.target.doubled else merged()
        landed = LandedCommit(self.target.version, "now", metadata, merge, self.target.table_id)
        self.target.landed.append(landed)
        for record in records_in(batch):
            self.applied[generation, record] += 1

    def positions_without_it(self, worker: Worker) -> dict[str, Position]:
        """`Work.positions_without_it`."""
        stands_on, lacks = worker.state.planned(P, worker.batch.key).stands_on, bool(worker.batch.ranges)
        return {name: replace(at, left_out=at.left_out or lacks) for name, at in stands_on.items()}

    def verify_still_planned(self, worker: Worker) -> None:
        """`Landing._verify_still_planned`. The target may be another one than the attempt has looked at: it was lost,
        and the attempt has just made it again."""
        batch, state = worker.batch, worker.state
        if batch.batch_id == 0:
            state = fold(self.ledger)
            verify_still_planned(batch, state.planned(P, batch.key).batch)
        assert self.guarded(batch, state) is Apply
        verify_target_not_behind(P, state, self.view(state))

    def as_told(self, crash: bool = False) -> bool:
        """Runs one batch, or does what its error says. Returns False if there is nothing to do."""
        try:
            return self.one_batch("settled")
        except CountsDisagree:
            pass  # it is recorded: the next run goes on after it
        except (LedgerBehindTarget, BatchMismatch, LedgerConflict):
            if not self.rebuild(crash, accept=True):
                self.begin_from_earliest(crash)
        except OffsetsExpired:
            self.skip_as_told(crash)
        except (FencedGeneration, TopicRecreated, TargetBehindLedger):  # the first: whatever was decided is ended
            self.begin_from_earliest(crash)
        return True
