"""A machine that argues with the protocol.

Hypothesis interleaves planners, attempts, zombies, lost answers, settles, resets, skips, lost ledgers and rebuilds over
the pure functions. A tiny model says what must never be. It knows only records: how often each was applied and by
which generation, and which of them a person gave up. The world between the pure functions is in memory: a log with
markers, a ledger with compare-and-swap, Kafka's offsets. Every place where a process can stop is a rule of its own.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from include.monitoring.ledger_digest import LedgerDigest
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.guard import Apply
from include.protocol.ledger_events import BatchCommitted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import to_row
from include.protocol.planning import verify_source
from include.protocol.proofs import Depth, Look, PipelineAudited
from tests.pure.protocol.machine_backfills import Backfills
from tests.pure.protocol.machine_world import PARTITIONS, Kafka, P, Planner, Target, Worker

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNTIL = ("begun", "planned", "read", "history landed", "quarantine landed", "landed", "settled")
ACTS = ("as told", "as told", "reset", "earliest", "skip", "rebuild", "new table", "promote")
DISASTERS = (
    "retention",
    "retention",
    "topic",
    "ledger",
    "target",
    "restore",
    "table",
    "restore table",
    "both",
    "another writer",
)
WHICH = st.integers(0, 999)  # which one of those that there are, counted round and round


class Protocol(Backfills, RuleBasedStateMachine):
    # what can happen

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
    @rule(which=WHICH)
    def a_planner_records(self, which: int) -> None:
        planner = self.planners.pop(which % len(self.planners))
        with suppress(LakemarkError):
            self.record(planner)

    @rule(
        until=st.sampled_from(UNTIL),
        records=st.integers(0, 9),
    )
    def a_run(self, until: str, records: int) -> None:
        """Plan, merge and settle in a row, or killed on the way."""
        self.kafka.ends[records % PARTITIONS] += records
        with suppress(LakemarkError):
            self.one_batch(until)

    @precondition(lambda self: self.keys)
    @rule(which=WHICH, program=st.sampled_from("PQ"))
    def an_attempt_reads(self, which: int, program: str) -> None:
        """Reads any batch that was ever planned: Airflow may clear any task at any time."""
        key = self.any_key(which)
        with suppress(LakemarkError):
            state = fold(self.ledger)
            batch = state.planned(P, key).batch
            if self.guarded(batch, state) is Apply:
                verify_source(batch, self.kafka.extent())
                self.workers.append(Worker(batch, state, program, writes=(*self.beside.named,)))

    @precondition(lambda self: self.workers)
    @rule(which=WHICH, answer_lost=st.booleans(), dies=st.booleans())
    def an_attempt_goes_on(self, which: int, answer_lost: bool, dies: bool) -> None:
        """One step, however long it has slept: it looks at the next table, writes what it has decided, or commits the
        point."""
        place = which % len(self.workers)
        worker = self.workers[place]
        left = [name for name in worker.writes if name not in worker.positions]
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

    @rule(chunk=st.integers(0, 9), killed=st.booleans())
    def a_chunk_lands(self, chunk: int, killed: bool) -> None:
        with suppress(LakemarkError):
            self.chunk_lands(chunk, killed)

    @rule(name=st.sampled_from(["history", "quarantine"]))
    def maintenance(self, name: str) -> None:
        self.beside.tables[name].touch()

    @rule()
    def the_file_changes(self) -> None:
        """It leaves out the history, or names it (again). A history that no batch has written begins then, whatever an
        attempt has left there whose batch landed without it."""
        self.beside.left_out ^= {"history"}
        self.beside.unknown |= {"history"} if self.ledger_was_lost else set()
        written = any(version.live is not None for version in self.beside.tables["history"].versions)
        by_landed = any("history" in (commit.metadata.positions or {}) for commit in self.target.landed)
        if not written or not (by_landed or "history" in fold(self.ledger).positions):
            self.accepted.setdefault("history", set()).update(*self.records.values())

    @rule(table=st.sampled_from("ab"), depth=st.sampled_from(["log", "rows"]), findings=st.integers(0, 1))
    def an_audit_is_recorded(self, table: str, depth: Depth, findings: int) -> None:
        state = fold(self.ledger)
        look = Look(state.generation, state.committed_through, str(len(self.ledger)), findings)
        self.append([PipelineAudited(state.generation, state.committed_through, "me", {table: {depth: look}})])

    @precondition(lambda self: self.keys)
    @rule(which=WHICH)
    def a_task_settles(self, which: int) -> None:
        with suppress(LakemarkError):
            self.settle_batch(self.any_key(which))

    def any_key(self, which: int) -> BatchKey:
        return sorted(self.keys)[which % len(self.keys)]

    @rule(
        act=st.sampled_from(ACTS),
        back=st.integers(0, 3),
        crash=st.booleans(),
        accept=st.booleans(),
    )
    def a_person_acts(self, act: str, back: int, crash: bool, accept: bool) -> None:
        """Does what the error says, or something else; is killed half way, or not."""
        with suppress(LakemarkError):
            match act:
                case "as told":
                    self.as_told(crash)
                case "reset":
                    self.begin_generation(
                        lambda state: self.restarted(state, state.committed_through + 1 - back), crash, accept
                    )
                case "earliest":
                    self.begin_generation(lambda state: self.restarted(state, "earliest"), crash, accept)
                case "skip":
                    self.begin_generation(self.skip_decision, crash, accept)
                case "rebuild":
                    self.rebuild(crash, accept)
                case "new table":
                    self.make_new_table()
                case "promote":
                    self.promote(crash)

    @rule(
        what=st.sampled_from(DISASTERS),
        keep=st.integers(0, 8),
        which=WHICH,
    )
    def a_disaster(self, what: str, keep: int, which: int) -> None:
        match what:
            case "retention":
                p = keep % PARTITIONS
                self.kafka.starts[p] = max(self.kafka.starts[p], self.kafka.ends[p] - keep)
            case "topic":
                self.kafka = Kafka(self.kafka.incarnation + 1)
            case "restore" if self.target.is_there:
                self.restore(which % (self.target.version + 1))
            case "table":
                self.beside.lose(("history", "quarantine")[keep % 2])
            case "restore table":
                name = ("history", "quarantine")[keep % 2]
                self.beside.restore(name, which % len(self.beside.tables[name].versions))
            case "another writer":
                self.target.doubled = not self.target.doubled
            case "ledger":  # lost, or replaced by an old copy
                self.lose_ledger(which % (len(self.ledger) + 1))
                known = {c.metadata.batch.key for c in self.target.landed}
                if not known or any(key not in known for key, _ in self.beside.landed):
                    self.beside.accept()
                self.beside.unknown |= self.beside.left_out
            case "target" | "both":
                self.target = Target(table_id=f"{self.target.table_id}'")
                self.gone |= {record for _, record in self.applied}
                self.applied.clear()
                settled = {BatchKey(e.generation, e.batch_id) for e in self.ledger if isinstance(e, BatchCommitted)}
                self.beside.forget(lambda key: key not in settled)
                if what == "both":
                    self.lose_ledger(0)
                    self.beside.accept()
                    self.beside.unknown |= self.beside.left_out

    def restore(self, back_to: int) -> None:
        """`RESTORE TABLE target TO VERSION AS OF back_to`."""
        self.target.version += 1
        self.target.restores.append((self.target.version, back_to))
        self.rows_come_and_go()
        held = {c.metadata.batch.key for c in self.target.landed if self.target.holds(c.table_version)}
        self.beside.forget(lambda key: key not in held)

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
    def i3_a_table_that_lacks_a_chunk_is_named_until_it_begins_anew(self) -> None:
        state = fold(self.ledger)
        for name in self.beside.lack_chunks:
            assert state.positions[name].left_out, name

    @invariant()
    def a_recent_state_says_what_the_whole_ledger_says(self) -> None:
        whole, recent = fold(self.ledger), self.recent()
        assert recent.batches == whole.batches[recent.first_batch_id :] or not recent.is_whole
        for name in ("generation", "next_batch_id", "committed_through", "next_offsets", "committed_offsets"):
            assert getattr(recent, name) == getattr(whole, name), name
        for name in ("topic_ids", "cluster_id", "pending", "last_commit", "target_version", "proofs", "positions"):
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
        if self.beside.left_out:
            self.the_file_changes()
        for _ in range(300):
            if not self.as_told():
                break
        else:
            raise AssertionError("the pipeline does not come to an end")
        self.i3_nothing_is_applied_twice_by_a_generation()
        self.i7_nothing_is_passed_over()
        self.beside.verify()  # without a further batch
        known = {record for _, record in self.applied} | self.given_up
        held = {
            (self.kafka.incarnation, partition, offset)
            for partition in range(PARTITIONS)
            for offset in range(self.kafka.starts[partition], self.kafka.ends[partition])
        }
        assert held <= known | self.accepted.get("target", set())
        for name, table in self.beside.judged.items():
            there = {record for row in table.versions[-1].rows for record in self.records_of(row)}
            assert held <= there | self.given_up | self.accepted.get(name, set()), name


_SETTINGS = settings(stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(_SETTINGS, max_examples=300, derandomize=True)  # a change passes or fails by itself


@pytest.mark.slow
class TestProtocolWithFreshSeeds(Protocol.TestCase):  # type: ignore[name-defined, misc]
    """Looks for what nobody has found yet."""

    settings = settings(_SETTINGS, max_examples=5_000)
