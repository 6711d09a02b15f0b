"""No purge of tombstones brings back a deleted row, whatever is read again: I9 (one state machine: over 300 lines).

Over the pure functions, Hypothesis interleaves live batches, days that go by, the steps of a purge, backfills,
cancelled ones, resets and re-created topics. The oracle knows only which records were ever applied: a key shows its
newest change. One case is left out, because `purge_tombstones_after_days` means it: a change that is read for the first
time when its key's newer delete has been purged already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from include.protocol.backfill import Backfill
from include.protocol.batch import Batch
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import (
    BackfillEnded,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    TopicsStarted,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import (
    Purgeable,
    PurgeMark,
    purgeable,
    raised,
    verify_not_purged,
    verify_reset_not_purged,
)
from include.protocol.ranges import OffsetRange, TopicPartition

DAYS = 7
PARTITIONS, KEYS = 2, 2
_CHANGES = st.tuples(
    st.integers(0, PARTITIONS - 1), st.integers(0, KEYS - 1), st.integers(0, 30), st.booleans()
)  # partition, key, order, whether it deletes
_SPANS = st.tuples(st.integers(0, 10), st.integers(0, 10))
Place = tuple[int, int, int]  # the topic's incarnation, partition, offset


@dataclass(frozen=True)
class Change:
    key: int
    order: int  # as `order_by` says; no two of a key are equal
    deletes: bool


@dataclass(frozen=True)
class Row:
    change: Change
    generation: int
    place: Place


@dataclass
class Purge:
    before: datetime
    due: list[Purgeable]
    marks: list[PurgeMark]
    step: int = 0


@dataclass
class Running:
    backfill: Backfill
    waiting: list[int]
    recorded: bool = False


@dataclass
class World:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    incarnation: int = 0
    topic: list[list[Change]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    ledger: list[tuple[datetime, Event]] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    marks: tuple[PurgeMark, ...] = ()
    applied: dict[Place, Change] = field(default_factory=dict)  # what the table is made of
    first_at: dict[Place, datetime] = field(default_factory=dict)  # of all that was ever applied
    late: set[int] = field(default_factory=set)  # keys of which a change came too late, as documented


class Purges(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.w = World()
        self.purge: Purge | None = None
        self.backfills: list[Running] = []
        self.numbers, self.keys = 0, KEYS
        starts = {TopicPartition("t", p): 0 for p in range(PARTITIONS)}
        self.say(TopicsStarted(1, 0, starts, {"t": "id-0"}, "c"))

    # the world

    def say(self, *events: Event) -> None:
        self.w.ledger += [(self.w.now, event) for event in events]

    @property
    def state(self) -> LedgerState:
        return fold(event for _, event in self.w.ledger)

    def read(self, ranges: tuple[OffsetRange, ...], topic_id: str) -> Iterator[tuple[Place, Change]]:
        if topic_id != f"id-{self.w.incarnation}":
            return  # Kafka does not hold it any more
        for r in ranges:
            for offset in range(r.start_offset, r.end_offset):
                yield (self.w.incarnation, r.partition, offset), self.w.topic[r.partition][offset]

    def apply(self, found: list[tuple[Place, Change]], generation: int) -> None:
        """One MERGE."""
        newest: dict[int, tuple[Place, Change]] = {}
        before = {change.key: self.newest_applied(change.key) for _, change in found}
        for place, change in found:
            if place not in self.w.applied:
                known = before[change.key]
                if known and known.deletes and known.order > change.order and change.key not in self.w.rows:
                    self.w.late.add(change.key)
                self.w.applied[place] = change
                self.w.first_at.setdefault(place, self.w.now)
            if change.key not in newest or newest[change.key][1].order < change.order:
                newest[change.key] = place, change
        for key, (place, change) in newest.items():
            there = self.w.rows.get(key)
            if there is None or change.order > there.change.order or (generation < 0 and change == there.change):
                self.w.rows[key] = Row(change, generation, place)

    def newest_applied(self, key: int) -> Change | None:
        applied = [change for change in self.w.applied.values() if change.key == key]
        return max(applied, key=lambda change: change.order, default=None)

    # what happens

    @rule(changes=st.lists(_CHANGES, min_size=1, max_size=3))
    def changes_come(self, changes: list[tuple[int, int, int, bool]]) -> None:
        for partition, key, order, deletes in changes:
            known = [*self.w.applied.values(), *(c for held in self.w.topic for c in held)]
            if (key, order) not in {(c.key, c.order) for c in known}:
                self.w.topic[partition].append(Change(key, order, deletes))

    @rule(partition=st.integers(0, PARTITIONS - 1), delete_first=st.booleans())
    def a_row_comes_and_goes(self, partition: int, delete_first: bool) -> None:
        """The case that matters: a change and a newer delete, in any order and place, long ago."""
        self.keys += 1
        for deletes in (delete_first, not delete_first):
            self.w.topic[partition if deletes else 0].append(Change(self.keys, int(deletes), deletes))
        self.a_batch_lands(50)
        self.w.now += timedelta(days=DAYS + 1)

    @rule(records_max=st.sampled_from([1, 2, 50]))
    def a_batch_lands(self, records_max: int) -> None:
        state = self.state
        ranges = []
        for partition, changes in enumerate(self.w.topic):
            start = state.committed_offsets.get(TopicPartition("t", partition), 0)
            if start < len(changes):
                ranges.append(OffsetRange("t", partition, start, min(len(changes), start + records_max)))
        if not ranges:
            return
        batch = Batch("p", state.generation, state.next_batch_id, tuple(ranges), dict(state.topic_ids), "c")
        self.apply(list(self.read(batch.ranges, state.topic_ids["t"])), batch.generation)
        self.say(BatchPlanned(batch))
        self.say(BatchCommitted(*batch.key, batch.fingerprint, len(self.w.ledger), None, None, None))

    @rule(days=st.sampled_from([1, DAYS + 1]))
    def days_go_by(self, days: int) -> None:
        self.w.now += timedelta(days=days)

    # maintenance: one step after the other, and anything in between

    def due(self, before: datetime) -> list[Purgeable] | None:
        if any(record.outcome is None for record in self.state.backfills.values()):
            return None
        return purgeable(self.w.ledger, before)

    def fits(self, row: Row, due: Purgeable) -> bool:
        """What `spark_jobs.commands.maintenance` asks of a row: it knows no topic ids."""
        _, partition, offset = row.place
        of = 0 < row.generation <= due.last_generation or row.generation in due.backfills
        return row.change.deletes and partition == due.partition and offset < due.offset and of

    @precondition(lambda self: self.purge is None)
    @rule()
    def a_purge_looks(self) -> None:
        before = self.w.now - timedelta(days=DAYS)
        due = self.due(before) or []
        ends = [(d, [row.place[2] + 1 for row in self.w.rows.values() if self.fits(row, d)]) for d in due]
        marks = [d.to(max(offsets)) for d, offsets in ends if offsets]
        self.purge = Purge(before, due, marks) if marks else None

    @precondition(lambda self: self.purge is not None)
    @rule()
    def a_purge_goes_on(self) -> None:
        purge = self.purge
        assert purge is not None
        purge.step += 1
        if purge.step == 1:
            self.w.marks = raised(self.w.marks, purge.marks)
        elif purge.step == 2:
            self.purge = purge if self.due(purge.before) == purge.due else None
        else:
            self.purge = None
            self.delete(purge)

    def delete(self, purge: Purge) -> None:
        of = {(mark.topic, mark.partition): mark.offset for mark in purge.marks}
        narrow = [replace(d, offset=of[d.topic, d.partition]) for d in purge.due if (d.topic, d.partition) in of]
        for key, row in list(self.w.rows.items()):
            if any(self.fits(row, d) for d in narrow):
                assert self.w.first_at[row.place] < purge.before, "a tombstone went that was too young"
                del self.w.rows[key]

    @precondition(lambda self: self.purge is None)
    @rule()
    def a_whole_purge(self) -> None:
        self.a_purge_looks()
        while self.purge is not None:
            self.a_purge_goes_on()

    # what reads again

    @rule(span=_SPANS, replays=st.booleans(), size=st.integers(1, 3))
    def a_backfill_is_decided(self, span: tuple[int, int], replays: bool, size: int) -> None:
        """Reads from one offset to another (in tenths of what was read), in chunks."""
        ranges = []
        for tp, end in sorted(self.state.committed_offsets.items()):
            first, last = (end * tenths // 10 for tenths in sorted(span))
            ranges += [OffsetRange(*tp, n, min(n + size, last)) for n in range(first, last, size)]
        if not ranges:
            return
        self.numbers += 1
        chunks, topic_ids = tuple((r,) for r in ranges), dict(self.state.topic_ids)
        records = "replay" if replays else None
        planned = Backfill("p", self.numbers, f"r{self.numbers}", chunks, topic_ids, "c", "same", {}, "", "", records)
        with suppress(TerminalError):
            verify_not_purged("p", "same", replays, self.w.marks, str)
            self.backfills.append(Running(planned, list(range(len(chunks)))))

    @precondition(lambda self: self.backfills)
    @rule(data=st.data(), end=st.integers(0, 4))
    def a_backfill_goes_on(self, data: st.DataObject, end: int) -> None:
        self.step(data.draw(st.sampled_from(self.backfills)), data.draw(st.integers(0, 9)), end)

    def step(self, running: Running, which: int, end: int) -> None:
        backfill = running.backfill
        if running not in self.backfills:
            return
        if not running.recorded:
            running.recorded = True
            self.say(BackfillPlanned(backfill))
            try:
                verify_not_purged(
                    "p", "same", backfill.records is not None, self.w.marks, str
                )  # once more: a purge may have begun
            except TerminalError:
                self.end(running, "cancelled")
        elif end == 0 or not running.waiting:
            self.end(running, "applied" if not running.waiting else "cancelled")
        else:
            chunk = running.waiting.pop(which % len(running.waiting))
            batch = backfill.batch(chunk)
            self.apply(list(self.read(batch.ranges, backfill.topic_ids["t"])), batch.generation)

    @rule(span=_SPANS, replays=st.booleans(), size=st.integers(1, 3), chunks=st.integers(0, 9))
    def a_whole_backfill(self, span: tuple[int, int], replays: bool, size: int, chunks: int) -> None:
        """A backfill; it is cancelled after `chunks` of its chunks have landed, if these are not all."""
        before = len(self.backfills)
        self.a_backfill_is_decided(span, replays, size)
        for running in self.backfills[before:]:
            self.step(running, 0, 1)
            for _ in range(min(chunks, len(running.waiting))):
                self.step(running, 0, 1)
            self.step(running, 0, 0)

    @precondition(lambda self: self.purge is None)
    @rule(
        what=st.sampled_from(["backfill", "reset", "new topic", "new table"]),
        at=st.integers(0, 4),
        span=_SPANS,
        back=st.integers(0, 9),
    )
    def things_happen_within_a_purge(self, what: str, at: int, span: tuple[int, int], back: int) -> None:
        before = len(self.backfills)
        if what == "backfill":
            self.a_backfill_is_decided(span, False, 1)
        for step in range(5):
            if step == at:
                match what:
                    case "backfill":
                        for running in self.backfills[before:]:
                            self.step(running, 0, 1)
                    case "reset":
                        self.a_reset_reads_again(back)
                        self.a_batch_lands(1)
                    case "new topic":
                        self.a_topic_is_created_anew()
                        self.a_row_comes_and_goes(0, False)
                    case "new table":
                        self.a_new_table_takes_the_place()
            if step == 0:
                self.a_purge_looks()
            elif self.purge is not None:
                self.a_purge_goes_on()
        for running in self.backfills[before:]:
            while running.waiting and running in self.backfills:
                self.step(running, 0, 1)
            if running in self.backfills:
                self.step(running, 0, 0)

    @rule()
    def a_new_table_takes_the_place(self) -> None:
        """A backfill reads the current topic again, as far as it was read; the promotion is one commit."""
        if any(record.outcome is None for record in self.state.backfills.values()):
            return
        self.numbers += 1
        state, topic_ids = self.state, {"t": f"id-{self.w.incarnation}"}
        if state.topic_ids != topic_ids:
            return
        ends = state.committed_offsets
        ranges = tuple(OffsetRange(*tp, 0, end) for tp, end in sorted(ends.items()) if end)
        if not ranges:
            return
        backfill = Backfill("p", self.numbers, "", (ranges,), topic_ids, "c", "new", ends, "", "")
        self.say(BackfillPlanned(backfill))
        found = list(self.read(ranges, topic_ids["t"]))
        of_it = {place for place, _ in found}
        self.w.applied = {place: change for place, change in self.w.applied.items() if place in of_it}
        self.w.rows, self.w.marks, self.w.late = {}, (), set()
        self.apply(found, backfill.generation)
        started = GenerationStarted(state.generation + 1, ends, topic_ids, "c", f"backfill {self.numbers}", "", "")
        self.say(started, BackfillEnded(self.numbers, "swapped", "ada"))

    @precondition(lambda self: self.purge is None)
    @rule(back=st.integers(0, 9), batches=st.integers(0, 3))
    def a_purge_comes_while_a_reset_reads_again(self, back: int, batches: int) -> None:
        self.a_reset_reads_again(back)
        for _ in range(batches):
            self.a_batch_lands(1)
        self.a_whole_purge()

    def end(self, running: Running, outcome: str) -> None:
        self.backfills.remove(running)
        self.say(BackfillEnded(running.backfill.number, outcome, "ada"))  # type: ignore[arg-type]

    @rule(back=st.integers(0, 9))
    def a_reset_reads_again(self, back: int) -> None:
        state = self.state
        first = back % (state.committed_through + 2)
        self.begin(state, state.offsets_before(first), f"batch {first}")

    @precondition(lambda self: self.w.incarnation < 2)
    @rule()
    def a_topic_is_created_anew(self) -> None:
        self.w.incarnation += 1
        self.w.topic = [[] for _ in range(PARTITIONS)]
        for running in [r for r in self.backfills if not r.recorded]:
            self.backfills.remove(running)
        state = self.state
        self.begin(state, dict.fromkeys(state.committed_offsets, 0), "earliest")

    def begin(self, state: LedgerState, offsets: dict[TopicPartition, int], origin: str) -> None:
        topic_ids = {"t": f"id-{self.w.incarnation}"}
        recreated = () if topic_ids == state.topic_ids else ("t",)
        started = GenerationStarted(state.generation + 1, offsets, topic_ids, "c", origin, "", "", recreated=recreated)
        with suppress(TerminalError):
            verify_reset_not_purged("p", state, started, self.w.marks, None, str)
            self.say(started)

    # what must hold

    @invariant()
    def i9_every_key_shows_its_newest_change(self) -> None:
        for key in set(range(self.keys + 1)) - self.w.late:
            newest, row = self.newest_applied(key), self.w.rows.get(key)
            expected = newest if newest and not newest.deletes else None
            shown = row.change if row and not row.change.deletes else None
            assert shown == expected, key


TestPurges = Purges.TestCase
TestPurges.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("what", ["backfill", "reset", "new topic", "new table"])
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("delete_first", [False, True])
def test_i9_what_happens_between_two_steps_of_a_purge(what: str, at: int, delete_first: bool) -> None:
    """Each of these happens at least once, whatever Hypothesis tries."""
    life = Purges()
    life.a_row_comes_and_goes(0, delete_first)
    of_the_row = (5, 10) if delete_first else (0, 5)
    life.things_happen_within_a_purge(what, at, of_the_row, 0)
    life.i9_every_key_shows_its_newest_change()
    life.a_whole_backfill(of_the_row, False, 1, 9)
    for _ in range(3):
        life.a_batch_lands(1)
        life.i9_every_key_shows_its_newest_change()
