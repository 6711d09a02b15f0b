"""The steps of a batch that need no Spark: plan and settle. Airflow, the command line and the job call these alike."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from include.kafka_source import source_extent
from include.ledger import Ledger
from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, LedgerState, TopicsStarted
from include.protocol.planning import Idle, NewBatch, PendingBatch, SourceExtent, plan_next, start_topics
from include.protocol.settlement import AlreadySettled, NotLanded, Settle, settle, verify_not_behind
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
            OffsetsExpired, TopicRecreated, LedgerBehindTarget: see there. RetryableError: Kafka does not answer.
        """
        self._settle_pending()
        source, log = self._observe()
        plan: Plan = Idle()

        def decide(state: LedgerState) -> list[Event]:
            nonlocal plan
            started, plan = self._decide(state, source, log)
            events: list[Event] = [started] if started else []
            return [*events, BatchPlanned(plan.batch)] if isinstance(plan, NewBatch) else events

        self.ledger.append(decide)
        return plan

    def preview(self) -> Plan:
        """What `plan` would return, without writing anything."""
        return self._decide(self.ledger.state(), *self._observe())[1]

    def settle(self, batch_id: int) -> BatchCommitted:
        """Records in the ledger what the target's log says of a batch; doing so again changes nothing.

        Raises:
            RetryableError: the batch has not landed. TerminalError: it was never planned.
            BatchMismatch, CountsDisagree, FencedGeneration: see there.
        """
        batch = self.ledger.state().planned(self.pipeline.name, batch_id).batch
        committed = self._settle(batch_id)
        if committed is None:
            raise RetryableError(
                what="the batch has not landed in the target",
                where=str(batch),
                expected=f"marker {batch_id} or higher",
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

    def _settle_pending(self) -> None:
        pending = self.ledger.state().pending
        if pending is not None:
            self._settle(pending.batch.batch_id)

    def _settle(self, batch_id: int) -> BatchCommitted | None:
        """The batch's commit as the ledger has it now; None if the batch has not landed."""
        began = time.monotonic()
        outcome: BatchCommitted | None = None

        def decide(state: LedgerState) -> list[Event]:
            nonlocal outcome
            record = state.planned(self.pipeline.name, batch_id)
            marker, landed = landed_and_marker(self.tables.target, record.batch)
            quarantine = None
            if landed is not None and landed.metadata.counts.quarantined:
                _, quarantine = landed_and_marker(self.tables.quarantine, record.batch)
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

    def _observe(self) -> tuple[SourceExtent, TableLog | None]:
        source = self.pipeline.source
        return source_extent(source.bootstrap_servers, source.topics), TableLog.open(self.tables.target)

    def _decide(
        self, state: LedgerState, source: SourceExtent, log: TableLog | None
    ) -> tuple[TopicsStarted | None, Plan]:
        name, limits = self.pipeline.name, self.pipeline.source.limits
        verify_not_behind(name, state, log and log.marker(name, state.generation))
        started = start_topics(state, source, self.pipeline.source.start)
        if started is not None:
            state = state.with_started(started)
        return started, plan_next(name, state, source, limits.records_per_batch_max)
