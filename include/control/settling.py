"""Settles batches: records in a pipeline's ledger what its target's log says. Needs no Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from include.fault_points import fault_point
from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.table_log import TableLog, landed_and_marker
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables, table_uri
from include.protocol.batch import BatchKey, Pin
from include.protocol.errors import CountsDisagree, RetryableError, TerminalError
from include.protocol.ledger_events import BatchCommitted, Event, GenerationStarted
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.runs import RunPlan, WholeRun, Work
from include.protocol.settlement import AlreadySettled, NotLanded, Settle, rollback_between, settle
from include.settings import Settings
from include.sources.kafka import source_extent
from include.sources.landing import LandingSource

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settler:
    """Settles the batches of one pipeline, and gives access to its tables, ledger and source."""

    settings: Settings
    pipeline: Pipeline

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.tables.ledger)

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings, self.pipeline)

    def settle(self, key: BatchKey) -> BatchCommitted:
        """Records in the ledger what the target's log says about a batch. A second call changes nothing.

        Raises:
            RetryableError: the batch has not landed. TerminalError: it was never planned.
            BatchMismatch, FencedGeneration: see there.
            CountsDisagree: the commit's counts do not add up. The commit is recorded, so a second call does not raise.
        """
        fault_point("settle.begins")
        committed = self.try_settle(key)
        fault_point("settle.recorded")
        if committed is None:
            raise RetryableError(
                what="the batch has not landed in the target",
                where=f"{self.pipeline.name} generation {key.generation} batch {key.batch_id}",
                expected=f"marker {key.batch_id} or higher",
                found="a lower one",
                action=f"run the batch: clear its merge task, or `lakemark run {self.pipeline.name}`",
            )
        return committed

    def settle_run(self, run: RunPlan | None, ran: Collection[BatchKey]) -> list[BatchRecord]:
        """Settles every batch of a finished run, and returns them in order, each with its commit.

        People clear tasks alone and in any order. A plan that runs again plans what is new, and the run's merge does
        not know of it; and a generation may have ended since. Both are no failure: nothing of it is left to this run.

        Args:
            run: what the run's plan says now; None: nothing is new.
            ran: the batches that the run's merge has run.

        Raises:
            RetryableError: something of the run has not landed. BatchMismatch, CountsDisagree: see there.
        """
        self.settle_pending()
        if run is None:
            log.info("%s: the run's plan has found nothing new, so there is nothing to settle", self.pipeline.name)
            return []
        if self.has_ended(run):
            return []
        if run.first not in ran and not run.is_done(self.ledger.recent()):
            text = "%s: batch %s was planned after this run's merge, so the next run merges and settles it"
            log.info(text, self.pipeline.name, run.first.batch_id)
            return []
        state = self.ledger.recent(run.first)
        self.settle(run.first)  # raises for a batch that has not landed, and for an ended generation
        if not run.is_done(state):
            raise RetryableError(
                what="the run has not finished",
                where=f"{self.pipeline.name} generation {run.first.generation} from batch {run.first.batch_id} on",
                expected="every partition at the end offset that the run was planned to",
                found=f"batches to {state.committed_through} committed",
                action=f"clear its merge task, or `lakemark run {self.pipeline.name} --until-caught-up`",
            )
        return run.batches(state)

    def has_ended(self, run: RunPlan) -> bool:
        """Whether a run's generation has ended, by a reset, a promotion or a new form: nothing of it can land."""
        state = self.ledger.recent()
        if state.generation <= run.first.generation:
            return False
        text = "%s: the generation of this run, %s, has ended: what it did is in the ledger, and nothing more can land"
        log.info(text, self.pipeline.name, run.first.generation)
        return True

    def backfill_has_ended(self, number: int) -> bool:
        """Whether a backfill has ended: all of it was applied, its table was promoted, or a person has cancelled it.
        Nothing more of it is to be done, and no more can land."""
        record = self.ledger.state().backfills.get(number)
        if record is None or record.outcome is None:
            return False
        log.info("%s: backfill %s has ended before: %s", self.pipeline.name, number, record.outcome)
        return True

    def is_over(self, work: Work) -> bool:
        """Whether what a job was started for has ended before: a run's generation, or a chunk's backfill."""
        match work:
            case RunPlan():
                return self.has_ended(work)
            case BatchKey(generation):
                return generation < 0 and self.backfill_has_ended(-generation)
            case WholeRun():  # it is planned anew
                return False

    def settle_pending(self) -> None:
        """Settles the batch that is planned and not committed, if there is one and it has landed."""
        pending = self.ledger.recent().pending
        if pending is not None:
            self.try_settle(pending.batch.key)

    def try_settle(self, key: BatchKey) -> BatchCommitted | None:
        """Settles the batch if it has landed. Returns its commit as the ledger has it; None if it has not landed."""
        began = time.monotonic()
        outcome: BatchCommitted | None = None
        problem: CountsDisagree | None = None

        def decide(state: LedgerState) -> list[Event]:
            nonlocal outcome, problem
            record = state.planned(self.pipeline.name, key)
            log = TableLog.open(self.tables.target)
            marker, landed = landed_and_marker(log, record.batch)
            rollback = None
            if log is not None and landed is not None:
                known = state.known_before(key.batch_id)
                since = known.target_version if known is not None else None
                rollback = rollback_between(known, landed, log.restored(since, landed.table_version))
            fault_point("settle.decided")
            match settle(record, marker, landed, rollback):
                case Settle(event, problem):
                    outcome = replace(event, settle_seconds=round(time.monotonic() - began, 3))
                    return [outcome]
                case AlreadySettled(event):
                    outcome, problem = event, None  # the call that recorded it has raised its problem
                case NotLanded():
                    outcome, problem = None, None
            return []

        self.ledger.append(decide, about=key)
        if problem is not None:
            raise problem
        return outcome

    def pins(self) -> dict[str, Pin]:
        """The versions that the transform's reference tables have now, by their names in the pipeline file.

        Raises:
            TerminalError: there is no such table. TableDamaged: see there.
        """
        transform = self.pipeline.transform
        found: dict[str, Pin] = {}
        for name, table in (transform.references if transform else {}).items():
            reference = open_table(table_uri(self.settings, table))
            if reference is None:
                raise TerminalError(
                    what="a reference table of the transform does not exist",
                    where=f"{self.pipeline.name}, transform.references.{name}",
                    expected=f"a Delta table at {table}",
                    found="none",
                    action="create the table, or fix the pipeline file",
                )
            found[name] = Pin(reference.version(), str(reference.metadata().id))
        return found

    def source(self, state: LedgerState | None = None) -> SourceExtent:
        """What the source holds of the pipeline's topics now, from its first record on. The source is Kafka, or with
        `merge_every` the archive.

        Args:
            state: the ledger's; None: it is not known.
        """
        landed = self.landing_source()
        if landed is not None:
            return landed.extent(state or LedgerState(), from_first=True)
        return source_extent(self.pipeline.source)

    def verify_read_again(self, started: GenerationStarted) -> None:
        """Checks that an archive that is merged from holds what a new generation merges again. Raises TerminalError if
        it does not."""
        if (landed := self.landing_source()) is not None:
            landed.verify_holds(started.start_offsets, started.topic_ids)

    def landing_source(self) -> LandingSource | None:
        """The landing that this pipeline merges from; None if it reads from Kafka."""
        return None if self.pipeline.merge_every is None else LandingSource.of(self.settings, self.pipeline)
