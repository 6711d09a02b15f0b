"""The steps of a batch that need no Spark: plan and settle. Airflow, the command line and the job call these alike."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from include.fault_points import passing
from include.kafka_source import source_extent
from include.ledger import Ledger
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import RetryableError
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, LedgerState, TopicsStarted
from include.protocol.planning import Idle, NewBatch, PendingBatch, SourceExtent, plan_next, start_topics
from include.protocol.settlement import (
    AlreadySettled,
    NotLanded,
    Settle,
    settle,
    verify_ledger_not_behind,
    verify_target_not_behind,
)
from include.settings import Settings
from include.storage import Tables
from include.target_log import TableLog, landed_and_marker

Plan = NewBatch | PendingBatch | Idle


@dataclass(frozen=True)
class Steps:
    """The steps of one pipeline."""

    settings: Settings
    pipeline: Pipeline

    def plan(self) -> Plan:
        """The batch to run now, recorded in the ledger before it is returned; Idle if there is nothing new.

        A pending batch is settled first (I6): if it has landed the next one is planned, or else it comes back as it
        was planned (I1).

        Raises:
            OffsetsExpired, TopicRecreated, LedgerBehindTarget, TargetBehindLedger, TableDamaged: see there.
            RetryableError: Kafka does not answer, or the disk refuses the ledger.
        """
        passing("plan.begins")
        self.settle_pending()
        before = TableLog.open(self.tables.target)
        plan: Plan = Idle()

        def decide(state: LedgerState) -> list[Event]:
            nonlocal plan
            started, plan = self._decide(state, before)
            passing("plan.decided")
            events: list[Event] = [started] if started else []
            return [*events, BatchPlanned(plan.batch)] if isinstance(plan, NewBatch) else events

        self.ledger.append(decide)
        passing("plan.recorded")
        return plan

    def preview(self) -> Plan:
        """What `plan` would return, without writing anything."""
        before = TableLog.open(self.tables.target)
        return self._decide(self.ledger.state(), before)[1]

    def settle(self, key: BatchKey) -> BatchCommitted:
        """Records in the ledger what the target's log says of a batch; doing so again changes nothing.

        Raises:
            RetryableError: the batch has not landed. TerminalError: it was never planned.
            BatchMismatch, CountsDisagree, FencedGeneration: see there.
        """
        passing("settle.begins")
        committed = self._settle(key)
        passing("settle.recorded")
        if committed is None:
            raise RetryableError(
                what="the batch has not landed in the target",
                where=f"{self.pipeline.name} generation {key.generation} batch {key.batch_id}",
                expected=f"marker {key.batch_id} or higher",
                found="a lower one",
                action=f"run the batch: clear its merge task, or `lakemark run {self.pipeline.name}`",
            )
        return committed

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.tables.ledger)

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings, self.pipeline)

    def settle_pending(self) -> None:
        """Settles the batch that is planned and not committed, if there is one and it has landed."""
        pending = self.ledger.state().pending
        if pending is not None:
            self._settle(pending.batch.key)

    def _settle(self, key: BatchKey) -> BatchCommitted | None:
        """The batch's commit as the ledger has it now; None if the batch has not landed."""
        began = time.monotonic()
        outcome: BatchCommitted | None = None

        def decide(state: LedgerState) -> list[Event]:
            nonlocal outcome
            record = state.planned(self.pipeline.name, key)
            marker, landed = landed_and_marker(self.tables.target, record.batch)
            quarantine = None
            if landed is not None and landed.metadata.counts.quarantined:
                _, quarantine = landed_and_marker(self.tables.quarantine, record.batch)
            passing("settle.decided")
            match settle(record, marker, landed, quarantine):
                case Settle(event):
                    outcome = replace(event, settle_seconds=round(time.monotonic() - began, 3))
                    return [outcome]
                case AlreadySettled(event):
                    outcome = event
                case NotLanded():
                    outcome = None
            return []

        self.ledger.append(decide)
        return outcome

    def source(self) -> SourceExtent:
        """What Kafka holds of the pipeline's topics now."""
        return source_extent(self.pipeline.source)

    def _decide(self, state: LedgerState, before: TableLog | None) -> tuple[TopicsStarted | None, Plan]:
        """Others plan and land at the same time, so it matters what is read when: that the ledger knows every batch of
        the target is asked of the log as it was *before* the ledger was read; that Kafka and the target have what the
        ledger knows is asked of them *after*."""
        name, limits = self.pipeline.name, self.pipeline.source.limits
        verify_ledger_not_behind(name, state, before and before.marker(name, state.generation))
        after, source = TableLog.open(self.tables.target), self.source()
        verify_target_not_behind(name, state, after and after.view(name, state.generation, state.target_version))
        started = start_topics(state, source, self.pipeline.source.start)
        if started is not None:
            state = state.with_started(started)
        return started, plan_next(name, state, source, limits.records_per_batch_max)
