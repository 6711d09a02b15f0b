"""Plans and settles the batches of one pipeline, without Spark.

Airflow, the command line and the job all call it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from include.control.expired_offsets import with_other_holders
from include.control.generation_change import GenerationChange
from include.control.new_beginnings import continue_after_a_loss, continue_in_the_new_form
from include.control.settling import Settler
from include.control.turns import NotOurTurnError, verify_turn, wait_for_turn
from include.fault_points import fault_point
from include.lake.lakes import verify_lake, verify_whole
from include.lake.table_log import TableLog
from include.participants.heads import heads_of
from include.participants.point import verify_point
from include.participants.program import verify_file_written
from include.participants.records import ARCHIVE
from include.pipeline_file import LANDING, find_pipeline
from include.protocol.batch import BatchKey
from include.protocol.batch_size import offsets_at_most
from include.protocol.errors import LedgerBehindTarget, OffsetsExpired, TargetBehindLedger
from include.protocol.handover import (
    Overtaken,
    hole_in,
    may_be_overtaken,
    resumed,
)
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import (
    Idle,
    NewBatch,
    PendingBatch,
    SourceExtent,
    added_partitions,
    plan_next,
    start_topics,
)
from include.protocol.ranges import TopicPartition
from include.protocol.runs import RunPlan
from include.protocol.settlement import verify_ledger_not_behind
from include.sources.archive import records_in
from include.sources.kafka import source_extent

Plan = NewBatch | PendingBatch | Idle

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Coordinator(Settler):
    """Plans and settles the batches of one pipeline.

    Args:
        until: plans no further than these offsets, and in no other partition; None: whatever the source holds. holder:
            plans although somebody has a turn, if it is this one.
    """

    until: Mapping[TopicPartition, int] | None = None
    holder: str | None = None

    def plan_run(self, ignore_merge_every: bool = False) -> RunPlan | None:
        """Plans a run, from the batch that `plan` returns to the end of what the source holds now. None if that is
        Idle."""
        plan, source = self._plan(ignore_merge_every)
        ends = {tp: extent.end_offset for tp, extent in source.partitions.items()}
        return None if isinstance(plan, Idle) else RunPlan(plan.batch.key, ends)

    def plan(self, ignore_merge_every: bool = False) -> Plan:
        """The batch to run now. It is recorded in the ledger before it is returned. Idle if there is nothing new or,
        with `merge_every`, not enough.

        A pending batch is settled first (I6). If it has landed, the next one is planned. If not, it is returned as it
        was planned (I1). Nothing new is planned while somebody has a turn (`turns`): this waits for its end.

        Args:
            ignore_merge_every: merge all that waits in the archive now, even if fewer than `merge_every` batches wait.

        Raises:
            OffsetsExpired, TopicRecreated, LedgerBehindTarget, TargetBehindLedger, TableDamaged: see there.
            RetryableError: Kafka does not answer, or the ledger cannot be written.
        """
        return self._plan(ignore_merge_every)[0]

    def preview(self) -> Plan:
        """What `plan` would return, without writing anything."""
        verify_whole(self.settings.lake)
        before, overtaken = TableLog.open(self.tables.target), self._overtaken()
        state = self.ledger.recent()
        try:
            now = overtaken.applied_to(state) if overtaken else state
            return self._decide(now, before, ignore_merge_every=False).plan
        except _HasMovedOnError:
            return self.preview()

    def _plan(self, ignore_merge_every: bool) -> tuple[Plan, SourceExtent]:
        fault_point("plan.begins")
        verify_lake(self.settings.lake, self.settings.home)
        verify_whole(self.settings.lake)
        state = continue_after_a_loss(self, self.ledger.recent())
        continue_in_the_new_form(self, state, self._verify_there_is_a_target)
        self._continue_after_what_is_merged()
        found = self._decide_and_record(None, ignore_merge_every)
        while isinstance(found, BatchKey):  # a batch is pending: the target says whether it has landed (I6)
            self.try_settle(found)
            found = self._decide_and_record(found, ignore_merge_every)
        fault_point("plan.recorded")
        return found.plan, found.source

    def _verify_there_is_a_target(self) -> None:
        """Raises TargetBehindLedger, as a plan does."""
        verify_point(self.pipeline.name, self.ledger.state(), None)

    def _continue_after_what_is_merged(self) -> None:
        """Begins a new generation of a landing that was overtaken while the pipeline file had no `merge_every` (I1):
        within a generation only batches move offsets."""
        if (merging := self._merging) is None or not may_be_overtaken(self.ledger.recent(), merging.ledger.recent()):
            return
        merging.settle_pending()  # what has landed was merged, even if its ledger does not know it yet (I6)
        if self._overtaken() is None:
            return

        def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
            if (overtaken := self._overtaken()) is None:
                raise _NotOvertakenError  # another planner was faster
            return overtaken.started

        with suppress(_NotOvertakenError):
            GenerationChange(self, self._verify_there_is_a_target).begin(decide)

    def _overtaken(self) -> Overtaken | None:
        """How a landing was overtaken, if its archive holds all that it has missed; else None."""
        if (merging := self._merging) is None or not may_be_overtaken(self.ledger.recent(), merging.ledger.recent()):
            return None
        found = Overtaken.of(self.ledger.events(), merging.ledger.events())
        archive = TableLog.open(self.tables.target)
        if found is None or archive is None:
            return None
        # Else its next generation would not notice a RESTORE.
        verify_point(self.pipeline.name, self.ledger.state(), archive)
        return found if records_in(archive.table, found.ranges, found.topic_ids) == found.records else None

    @property
    def _merging(self) -> Coordinator | None:
        """The coordinator of the half that merges, if this is a landing."""
        if not self.pipeline.is_landing:
            return None
        name = self.pipeline.name.removesuffix(LANDING)
        return Coordinator(self.settings, find_pipeline(name, self.settings.pipelines, self.settings.environment))

    def _decide_and_record(self, settled: BatchKey | None, ignore_merge_every: bool) -> _Decision | BatchKey:
        """Decides and records the decision. Returns the decision, or the batch that has to be settled first.

        Args:
            settled: the batch that was settled just now, whether it had landed or not.
        """
        before = TableLog.open(self.tables.target)
        found: _Decision | BatchKey | None = None

        def decide(state: LedgerState) -> list[Event]:
            nonlocal found
            if state.pending is None:
                verify_turn(state, self.holder)
            if state.pending is not None and state.pending.batch.key != settled:
                found = state.pending.batch.key
                return []
            found = self._decide(state, before, ignore_merge_every)
            fault_point("plan.decided")
            return found.events

        try:
            self.ledger.append(decide, about=None)
        except _HasMovedOnError:
            return self._decide_and_record(settled, ignore_merge_every)
        except NotOurTurnError:
            wait_for_turn(self.ledger, log.warning)  # a person who waits shall know for whom
            return self._decide_and_record(settled, ignore_merge_every)
        assert found is not None
        return found

    def _decide(self, state: LedgerState, before: TableLog | None, ignore_merge_every: bool) -> _Decision:
        """Decides what to run next.

        Others plan and land at the same time, so the order of reading matters. The target's log is read *before* the
        ledger, to check that the ledger knows every batch of the target. The source is read *after* the ledger, to
        check that it still has what the ledger knows. If the earlier log lacks a batch of the ledger, the log is read
        again.

        Raises:
            _HasMovedOnError: others have moved the ledger on since it was read.
        """
        name, limits = self.pipeline.name, self.pipeline.source.limits
        verify_file_written(self.settings, self.pipeline, state)
        verify_ledger_not_behind(name, state, before.marker(name, state.generation) if before else None)
        landed = self.landing_source()
        source = source_extent(self.pipeline.source) if landed is None else landed.extent(state)
        if self.until is not None:
            source = source.up_to(self.until)
        try:
            verify_point(self.pipeline.name, state, before)
        except TargetBehindLedger:  # the target is behind, or only its earlier log is
            verify_point(self.pipeline.name, self.ledger.state(), TableLog.open(self.tables.target))
        started = self._topics_started(state, source)
        if started is not None:
            state = state.with_started(started)
        if landed is not None:
            landed.verify_holds_pending(state)
            if not state.batches:  # a generation begins, perhaps with what was merged before
                landed.verify_holds(state.next_offsets, state.topic_ids)
        records_max = (self.pipeline.merge_every or 1) * limits.records_per_batch_max
        offsets_max = offsets_at_most(state, limits.seconds_per_batch, records_max)
        try:
            planned = self._planned_over_tables(state, source, offsets_max)
        except OffsetsExpired as error:
            raise with_other_holders(error, self, state, source) from error
        waits = landed is not None and not (ignore_merge_every or landed.is_due(state))
        if waits and isinstance(planned, NewBatch) and not planned.batch.mends:
            planned = Idle()
        if landed is not None and isinstance(planned, NewBatch):
            planned = replace(planned, stands_on=landed.filled(planned.stands_on, state))
        return _Decision(started, planned, source)

    def _planned_over_tables(self, state: LedgerState, source: SourceExtent, offsets_max: int) -> Plan:
        """As `plan_next`. If a table before the point knows more than the ledger, a reset or a batch may have come in
        between. A reset fences the target first, and records last: so the target is read first."""
        name = self.pipeline.name
        try:
            heads = heads_of(self.settings, self.pipeline, state)
            return plan_next(name, state, source, offsets_max=offsets_max, pins=self.pins(), heads=heads)
        except LedgerBehindTarget as error:
            target, now = TableLog.open(self.tables.target), self.ledger.recent()
            if (now.generation, now.next_batch_id) > (state.generation, state.next_batch_id):
                raise _HasMovedOnError from error
            verify_ledger_not_behind(name, state, target.marker(name, state.generation) if target else None)
            raise

    def _topics_started(self, state: LedgerState, source: SourceExtent) -> TopicsStarted | None:
        """Where to begin in topics that were never read: in Kafka as the file says, in an archive at its start."""
        # A topic that matches the pattern later is read whole: nobody decided to skip its first records.
        joins = self.pipeline.source.topics_pattern is not None and bool(state.topic_ids)
        whole = joins or self.pipeline.merge_every is not None
        started = start_topics(state, source, "earliest" if whole else self.pipeline.source.start)
        if started is None and (added := added_partitions(state, source)):
            for warning in self.pipeline.warnings:
                log.warning(
                    "%s: partitions were added: %s. %s", self.pipeline.name, ", ".join(map(str, added)), warning
                )
        if started is not None and (merging := self._merging) is not None:
            return resumed(started, merging.ledger.recent(), merging.hole_in_the_archive(started.topic_ids))
        return started

    def hole_in_the_archive(self, topic_ids: Mapping[str, str]) -> Mapping[TopicPartition, int]:
        """Where a hole in the archive begins: the pipeline file left it out for a time, and nobody has filled it."""
        stands = self.ledger.recent().positions.get(ARCHIVE)
        return hole_in(ARCHIVE, self.ledger.events(), topic_ids) if stands is not None and stands.left_out else {}


class _HasMovedOnError(Exception):
    """Others have moved the ledger on since a state of it was read: decide again."""


class _NotOvertakenError(Exception):
    """The landing was not overtaken (any more), so its generation goes on."""


@dataclass(frozen=True)
class _Decision:
    started: TopicsStarted | None
    plan: Plan
    source: SourceExtent

    @property
    def events(self) -> list[Event]:
        """The events that the ledger must record."""
        started: list[Event] = [self.started] if self.started else []
        if not isinstance(self.plan, NewBatch):
            return started
        return [*started, BatchPlanned(self.plan.batch, self.plan.stands_on, self.plan.lag_records)]
