"""One attempt at one batch: guard, read, land every table before the point, land the point. The ledger records its
start and its end."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import SparkSession

from include.control.two_phase import TwoPhase
from include.fault_points import fault_point
from include.lake.ledger import Ledger
from include.lake.merge.upkeep import keep_quick
from include.lake.table_log import TableLog, landed_and_marker
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.engines import Choice, choose, compaction_bytes
from include.participants.participant import POINT, Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.pipeline_file.tables import Tables
from include.profile.tags import attempt_tag
from include.protocol.batch import Batch, BatchKey
from include.protocol.counts import SourceCounts
from include.protocol.errors import LakemarkError
from include.protocol.guard import AlreadyApplied, Apply, guard, verify_still_planned
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import AttemptEnded, AttemptStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.settlement import LandedCommit
from include.settings import Settings
from spark_jobs.attempt.content import Content
from spark_jobs.attempt.landing import LandedMeanwhileError, Landing
from spark_jobs.attempt.phases import Phases
from spark_jobs.attempt.work import Work
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.failures import classed
from spark_jobs.engine.session import fit, tagged
from spark_jobs.tables import pruning

OpenSession = Callable[[], AbstractContextManager[SparkSession]]
_PROBLEM_MAX = 2000  # characters of an error that the ledger keeps


@dataclass(frozen=True)
class AttemptResult:
    """What an attempt did. An attempt that finds the batch applied has no `counts`; its `phase_seconds` are those of
    the phases that it has run until then, if any."""

    outcome: Literal["applied", "already_applied"]
    batch: Batch
    attempt_id: str
    counts: SourceCounts | None = None
    phase_seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {
            "outcome": self.outcome,
            "pipeline": self.batch.pipeline,
            "generation": self.batch.generation,
            "batch_id": self.batch.batch_id,
            "attempt_id": self.attempt_id,
            "counts": self.counts and self.counts.to_json(),
            "phase_seconds": self.phase_seconds,
        }


@dataclass(frozen=True)
class Attempt:
    """An attempt at a batch of a pipeline.

    Args:
        open_session: called only if there is something to do. say: takes progress as JSON data.
        started_by: for the ledger: "cli", or "airflow" and the path of the task's try in its UI.
    """

    settings: Settings
    pipeline: Pipeline
    key: BatchKey
    open_session: OpenSession
    started_by: str
    say: SayFact
    attempt_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self) -> AttemptResult:
        """Applies the batch, or finds that it is applied already.

        Raises:
            RetryableError, OutcomeUnknownError, TerminalError: see each class. It raises nothing else.
        """
        phases = Phases(self._say)
        work = self._begun()
        batch = work.batch
        try:
            result = self._applied(work, phases)
            self._record(self._ended(batch, result.outcome, phases))
        except Exception as error:
            failure = classed(
                error,
                pipeline=self.pipeline.name,
                where=str(batch),
                phase=phases.current,
                may_have_landed=phases.may_have_landed,
            )
            with suppress(LakemarkError):  # if the ledger fails as well, the first failure says more
                self._record(self._ended(batch, type(failure).__name__, phases, str(failure)[:_PROBLEM_MAX]))
            raise failure from error
        self._ledger.keep_few_files()
        return result

    def _begun(self) -> Work:
        """What the ledger says of the batch, once it knows that this attempt has begun."""
        found: list[Work] = []

        def decide(state: LedgerState) -> list[AttemptStarted]:
            work = Work.of(self.settings, self.pipeline, self.key, state)
            found.append(work)
            host, batch = socket.gethostname(), work.batch
            return [
                AttemptStarted(batch.generation, batch.batch_id, self.attempt_id, host=host, started_by=self.started_by)
            ]

        self._ledger.append(decide, about=self.key)
        return found[-1]

    def _applied(self, work: Work, phases: Phases) -> AttemptResult:
        already = AttemptResult("already_applied", work.batch, self.attempt_id, phase_seconds=phases.seconds)
        try:
            self._verify_not_landed(work, TableLog.open(work.target))
            counts = self._land(work, phases)
        except LandedMeanwhileError:
            return already
        # Delta silently skips a write whose marker is there. So this reads in the log which attempt landed (I5). It
        # raises if that one read other ranges, or if the generation has ended.
        _, landed = self._look(work, TableLog.open(work.target))
        if landed is not None and landed.metadata.attempt_id != self.attempt_id:
            return already
        return AttemptResult("applied", work.batch, self.attempt_id, counts=counts, phase_seconds=phases.seconds)

    def _land(self, work: Work, phases: Phases) -> SourceCounts:
        """Reads the batch, and lands it in every table: before the point, then at the point."""
        catalog = Catalog.of(self.pipeline)
        before = [p for p in catalog.before if work.writes(p)]
        together = self._together(work)
        with ExitStack() as stack:
            if together is not None:
                with phases.phase("sinks"):
                    together.get_ready()
            with phases.phase("session"):
                phases.spark = spark = stack.enter_context(self.open_session())
                stack.enter_context(tagged(spark, attempt_tag(self.attempt_id)))
                choices = {p.name: self._choice(work, p) for p in (*before, catalog.point)}
                large = self._fit(spark, work, before, choices)
            with phases.phase("read"):
                fault_point("attempt.before_read")
                content = Content(
                    spark,
                    self.settings,
                    work,
                    attempt_id=self.attempt_id,
                    phases=phases,
                    with_headers=self._wants_headers(catalog),
                    lanes={name for name, choice in choices.items() if choice.engine == "lane"},
                )
            landing = Landing(
                spark,
                self.settings,
                work,
                attempt_id=self.attempt_id,
                choices=choices,
                engines=phases.engines,
                say=self._say,
                verify_not_landed=lambda: self._verify_not_landed(work, TableLog.open(work.target)),
                verify_still_planned=lambda: self._verify_still_planned(work),
                create=None if together is None else together.create,
            )
            positions = work.positions_without_it
            for participant in before:
                part = content.part(participant)
                with phases.phase(participant.phase):
                    positions[participant.name] = landing.before(
                        participant, part, participant.uri(self.settings) in large
                    )
                fault_point("attempt.part_landed")
            point = content.part(catalog.point)
            with phases.phase(catalog.point.phase, commits=True):
                landing.point(catalog.point, point, positions, work.target in large)
            fault_point("attempt.landed")
            with phases.phase("upkeep"):
                for participant in (*before, catalog.point):
                    if (table := choices[participant.name].table) is not None:
                        for wrong in keep_quick(table, participant.spec.cluster_by, compaction_bytes(self.settings)):
                            self._say({"progress": f"upkeep of the {participant.name} failed", "why": wrong})
        return point.counts

    def _together(self, work: Work) -> TwoPhase | None:
        """The sinks that move with the point's commit; None: there are none."""
        if all(sink.mode != "two_phase" for sink in self.pipeline.sinks.values()):
            return None
        return TwoPhase(
            self.settings,
            self.pipeline,
            work.target,
            batch=work.batch,
            attempt_id=self.attempt_id,
            by=self.started_by,
            say=lambda text: self._say({"progress": "sinks", "told": text}),
        )

    def _choice(self, work: Work, participant: Participant) -> Choice:
        """By which engine this attempt writes a table."""
        uri = work.target if participant.place == "point" else participant.uri(self.settings)
        batch = work.batch
        return choose(self.settings, participant.spec, uri, width=batch.width, is_chunk=batch.is_chunk)

    def _fit(
        self, spark: SparkSession, work: Work, before: list[Participant], choices: Mapping[str, Choice]
    ) -> frozenset[LakeUri]:
        """Sets the session up for the batch. Returns the tables in which it pays to look where keys can be."""
        tables = {p.name: p.uri(self.settings) for p in before if isinstance(p.spec, TableSpec)} | {POINT: work.target}
        rows = {uri: choices[name].rows_at_most(uri) for name, uri in tables.items()}
        fit(spark, work.batch.width, max(rows.values()))
        return frozenset(uri for uri, n in rows.items() if pruning.pays(n, work.batch.width))

    def _wants_headers(self, catalog: Catalog) -> bool:
        return self.pipeline.source.wants_headers or any(p.takes == "records" for p in catalog.participants)

    def _verify_not_landed(self, work: Work, log: TableLog | None) -> None:
        """Raises LandedMeanwhileError if the point holds the batch, by its log; and whatever `guard` raises."""
        decision, _ = self._look(work, log)
        if isinstance(decision, AlreadyApplied):
            raise LandedMeanwhileError

    def _verify_still_planned(self, work: Work) -> TableLog | None:
        """Looks again, once the target is there: it may be another one than the guard has seen. If it was lost since,
        this attempt has made it again, without any fence or earlier batch (I3, I5). If it is lost after this look, the
        commit fails. Raises as `_verify_not_landed`, `Work.of`, `verify_still_planned` and `Work.verify_target`."""
        if work.batch.batch_id == 0 or work.batch.is_chunk:  # of a later one, the target must hold the batch before it
            found = Work.of(self.settings, self.pipeline, self.key, self._ledger.recent(self.key))
            verify_still_planned(work.batch, found.batch)
            work = found
        log = TableLog.open(work.target)
        self._verify_not_landed(work, log)
        work.verify_target(log)
        return log

    def _look(self, work: Work, log: TableLog | None) -> tuple[Apply | AlreadyApplied, LandedCommit | None]:
        """What the guard says of the target's log, and the batch's commit there."""
        marker, landed = landed_and_marker(log, work.batch)
        fingerprint = None if landed is None else landed.metadata.fingerprint
        decision = guard(work.batch, marker, fingerprint, work.generation, is_committed=work.is_committed)
        return decision, landed

    def _say(self, fact: JsonObject) -> None:
        """Says progress. Every line names its pipeline, batch and attempt."""
        about = {"pipeline": self.pipeline.name, **self.key._asdict(), "attempt_id": self.attempt_id}
        self.say({**fact, **about})

    def _ended(self, batch: Batch, outcome: str, phases: Phases, problem: str | None = None) -> AttemptEnded:
        return AttemptEnded(
            batch.generation,
            batch.batch_id,
            self.attempt_id,
            outcome=outcome,
            phase_seconds=phases.seconds,
            problem=problem,
            engines=phases.engines,
        )

    def _record(self, event: AttemptEnded) -> None:
        self._ledger.append(lambda state: [event], about=self.key)

    @property
    def _ledger(self) -> Ledger:
        return Ledger(Tables.of(self.settings, self.pipeline).ledger)
