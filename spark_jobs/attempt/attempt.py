# Above 300 lines: one room until what a batch writes has one contract.
"""One attempt at one batch: guard, read, decode, quarantine, MERGE. The ledger records its start and its end."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.fault_points import fault_point
from include.lake.delta_tables import rows_at_most
from include.lake.ledger import Ledger
from include.lake.sql import spark_name
from include.lake.table_log import landed_and_marker
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.pipeline_file.tables import Tables
from include.profile.tags import attempt_tag, phase_tag
from include.protocol.batch import Batch, BatchKey
from include.protocol.commit_metadata import CommitMetadata, Role
from include.protocol.counts import SourceCounts
from include.protocol.errors import LakemarkError
from include.protocol.guard import AlreadyApplied, guard
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import AttemptEnded, AttemptStarted
from include.protocol.planning import verify_source
from include.protocol.ranges import TopicPartition
from include.quality.evidence import Subject, record
from include.quality.judge import Judge, judge_of
from include.quality.verdict import Ceiling, Verdict, verify_gate
from include.settings import Settings
from include.sources.archive import ArchiveSource
from include.sources.kafka import source_extent
from include.sources.landing import LandingSource
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions, is_for
from spark_jobs.changes.quality import BROKEN, judgement
from spark_jobs.changes.records import Volume, kept, read_frozen, volume_of
from spark_jobs.changes.reduction import Reduced, reduce_changes
from spark_jobs.changes.transform import transformation
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.failures import classed, is_conflict, is_short_of_memory
from spark_jobs.engine.session import fit, tagged
from spark_jobs.tables import pruning
from spark_jobs.tables.append import append_archive, append_quarantine, replace_quarantine
from spark_jobs.tables.archive import read_archive
from spark_jobs.tables.creating import ensure
from spark_jobs.tables.merging import folded, merge_beside, merge_changes

OpenSession = Callable[[], AbstractContextManager[SparkSession]]
_REASON = "_lakemark_reason"
_MERGES_MAX = 5  # in one attempt, while other work on the table is faster
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
class _Work:
    """A batch, and what the ledger says about it."""

    batch: Batch
    target: LakeUri  # the table that it is merged into
    generation: int  # the ledger's
    next_offsets: Mapping[TopicPartition, int]  # once the batch has landed; empty for a backfill, which moves none
    records: LakeUri | None = None  # a replay's own records
    archive: LakeUri | None = None  # if the records come from the archive

    @property
    def is_of_kafka(self) -> bool:
        return self.records is None and self.archive is None


@dataclass(frozen=True)
class _Found:
    """What an attempt has found in its records before it writes anything."""

    counts: SourceCounts
    verdict: Verdict | None
    set_aside: str | None  # digest of the records for the quarantine and of their reasons
    truncated: bool = False  # a truncate is among the changes


@dataclass(frozen=True)
class _Beside:
    """What lands in a table beside the target."""

    uri: LakeUri
    reduced: Reduced  # the batch, as the table's kind prepares it
    metadata: CommitMetadata
    spec: TableSpec


@dataclass
class _Phases:
    """How long each phase took, and which phase is running. Spark's jobs are tagged with it."""

    say: SayFact
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = "start"
    may_have_landed: bool = False  # true from the phase on that makes the batch's own commit
    spark: SparkSession | None = None  # once it is open

    @contextmanager
    def phase(self, name: str, commits: bool = False) -> Iterator[None]:
        """Measures a phase.

        Args:
            commits: the batch's commit point is in this phase.
        """
        self.current = name
        self.may_have_landed |= commits
        self.say({"progress": name})
        began = time.monotonic()
        with tagged(self.spark, phase_tag(name)):
            yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)


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
        phases = _Phases(self._say)
        work = self._work()
        batch = work.batch
        self._record(
            AttemptStarted(
                batch.generation, batch.batch_id, self.attempt_id, host=socket.gethostname(), started_by=self.started_by
            )
        )
        try:
            if self._guard(work) is not None:
                result = AttemptResult("already_applied", batch, self.attempt_id)
            else:
                result = self._apply(work, phases)
            self._record(self._ended(batch, result.outcome, phases.seconds))
        except Exception as error:
            failure = classed(
                error,
                pipeline=self.pipeline.name,
                where=str(batch),
                phase=phases.current,
                may_have_landed=phases.may_have_landed,
            )
            with suppress(LakemarkError):  # if the ledger fails as well, the first failure says more
                self._record(self._ended(batch, type(failure).__name__, phases.seconds, str(failure)[:_PROBLEM_MAX]))
            raise failure from error
        self._ledger.keep_few_files()
        return result

    def _work(self) -> _Work:
        """The batch, or a backfill's chunk, as the ledger has it.

        Raises:
            FencedGeneration: its generation has ended, or the backfill was cancelled. TerminalError: it was never
            planned.
        """
        state, name = self._ledger.recent(self.key), self.pipeline.name
        batch = state.planned(name, self.key).batch
        if batch.is_chunk:
            backfill = state.backfill(name, -batch.generation)
            target, records = self._tables.target_of(backfill), self._tables.records_of(backfill)
            if not backfill.from_archive:
                return _Work(batch, target, state.generation, {}, records=records)
            archive = ArchiveSource.of(self.settings, self.pipeline, state).verified_uri()
            return _Work(batch, target, state.generation, {}, archive=archive)
        merged_from = None
        if self._tables.is_archive_source:
            merged_from = LandingSource.of(self.settings, self.pipeline).verified_uri(state)
        # The batch to apply is the last one planned, so the ledger's next offsets are where it ends.
        return _Work(batch, self._tables.target, state.generation, state.next_offsets, archive=merged_from)

    def _apply(self, work: _Work, phases: _Phases) -> AttemptResult:
        batch = work.batch
        with ExitStack() as stack:
            with phases.phase("session"):
                phases.spark = spark = stack.enter_context(self.open_session())
                stack.enter_context(tagged(spark, attempt_tag(self.attempt_id)))
                rows = {uri: rows_at_most(uri) for uri in self._merged_into(work)}
                fit(spark, batch.width, max(rows.values()))
                large = frozenset(uri for uri, n in rows.items() if pruning.pays(n, batch.width))
            with phases.phase("read"):
                fault_point("attempt.before_read")
                records, read = self._read(spark, work)
                fault_point("attempt.after_read")
                if work.is_of_kafka:
                    self._verify_source(batch)
            if self._tables.archive is not None and not self._tables.is_archive_source and not batch.is_chunk:
                with phases.phase("archive"):
                    self._archive(spark, work, records, read=read.records, uri=self._tables.archive)
                fault_point("attempt.archived")
            if self.pipeline.is_landing:
                with phases.phase("archive", commits=True):
                    return self._landed_raw(spark, work, records, read=read.records, phases=phases)
            judge = judge_of(self.settings, self.pipeline)
            with phases.phase("decode"):
                judged = self._decoded(spark, batch, records, judge)
                mine = folded(dispositions(judged, self.pipeline), TableSpec.of_target(self.pipeline))
                reduced = reduce_changes(judged, mine, self.pipeline, read)
            counts = reduced.counts
            verdict = None
            if judge is not None:
                with phases.phase("judge"):
                    verdict = self._judged(spark, batch, judge, judged)
                fault_point("attempt.judged")
            verify_gate(str(batch), verdict, self._ceiling(work), quarantined=counts.quarantined, read=counts.read)
            found = _Found(counts, verdict, reduced.set_aside, reduced.truncated)
            keep = self._how_to_keep(work, found)
            if keep is not None:
                with phases.phase("quarantine"):
                    keep(spark, self._tables.quarantine, judged, self._metadata(work, "quarantine", found))
                fault_point("attempt.quarantine_landed")
            for beside in self._beside(work, judged, read, found):
                with phases.phase("history" if beside.metadata.role == "history" else "routes"):
                    self._land_beside(spark, work, beside, beside.uri in large)
                fault_point("attempt.history_landed" if beside.metadata.role == "history" else "attempt.route_landed")
            with phases.phase("merge", commits=True):
                landed = self._merge(spark, work, reduced, found, prunes=work.target in large)
            fault_point("attempt.landed")
        if landed:
            return AttemptResult("applied", batch, self.attempt_id, counts=counts, phase_seconds=phases.seconds)
        return AttemptResult("already_applied", batch, self.attempt_id, phase_seconds=phases.seconds)

    def _merged_into(self, work: _Work) -> Iterator[LakeUri]:
        yield work.target
        yield from self._tables.routes.values()
        if self._tables.history is not None:
            yield self._tables.history

    def _read(self, spark: SparkSession, work: _Work) -> tuple[DataFrame, Volume]:
        """The records, kept for the attempt, and their volume."""
        if work.records is not None:
            records = read_frozen(spark, work.records, self.pipeline.source, work.batch)
        elif work.archive is not None:
            records = read_archive(spark, work.archive, self.pipeline.source, work.batch)
        else:
            self._verify_source(work.batch)
            return kept(spark, self.pipeline.source, work.batch, self._keeps_headers)
        return records, volume_of(records)

    @property
    def _keeps_headers(self) -> bool:
        is_archived = self._tables.archive is not None or self.pipeline.is_landing
        return self.pipeline.source.wants_headers or is_archived

    def _archive(self, spark: SparkSession, work: _Work, records: DataFrame, read: int, uri: LakeUri) -> SourceCounts:
        """Appends the records to the archive. This comes first: the archive does not depend on decoding."""
        counts = SourceCounts(read, quarantined=0, filtered=0, superseded=0, changes=read)
        marker, _ = landed_and_marker(uri, work.batch)
        if marker is None or marker < work.batch.batch_id:
            append_archive(spark, uri, records, self._metadata(work, "archive", _Found(counts, None, None)))
        return counts

    def _landed_raw(
        self, spark: SparkSession, work: _Work, records: DataFrame, read: int, phases: _Phases
    ) -> AttemptResult:
        """Applies a landing's batch: it only appends to the archive, which is its commit point.

        Whatever goes wrong, this reads the archive's log first, as in `_merge` (I6).
        """
        already = AttemptResult("already_applied", work.batch, self.attempt_id, phase_seconds=phases.seconds)
        try:
            counts = self._archive(spark, work, records, read=read, uri=work.target)
        except Exception:
            if self._guard(work) is not None:
                return already
            raise
        fault_point("attempt.landed")
        # Delta silently skips an append if the marker is there. So this reads in the log which attempt landed (I5).
        self._guard(work)
        _, landed = landed_and_marker(work.target, work.batch)
        if landed is not None and landed.metadata.attempt_id != self.attempt_id:
            return already
        return AttemptResult("applied", work.batch, self.attempt_id, counts=counts, phase_seconds=phases.seconds)

    def _decoded(self, spark: SparkSession, batch: Batch, records: DataFrame, judge: Judge | None) -> DataFrame:
        transform = transformation(spark, self.settings, self.pipeline, batch)
        try:
            judged = decode(records, self.pipeline, batch, judge=judge, transform=transform)
            if transform is not None:  # its errors are explained here; all others can wait for the pass that reduces
                return judged.localCheckpoint(eager=True)
            # Kept if there are more readers than that pass. (The quarantine decodes the records that it needs once
            # more: they are few or none, and what it needs depends on the record alone.)
            several = judge is not None or self._tables.history is not None or self._tables.routes
            return judged.localCheckpoint(eager=False) if several else judged
        except Exception as error:
            if transform is not None and transform.is_of_data(error):
                raise transform.explained(error) from error
            raise

    def _judged(self, spark: SparkSession, batch: Batch, judge: Judge, judged: DataFrame) -> Verdict:
        """The suite's verdict. It is recorded, whatever becomes of the batch."""
        rows = judged.where("judged").select("row.*", F.col("broken").alias(BROKEN), F.col("reason").alias(_REASON))
        accepted = rows.where(F.col(_REASON).isNull()).select(*(spark_name(c.name) for c in self.pipeline.columns))
        found = judgement(spark, self.settings, judge, rows=rows, accepted=accepted, broken=BROKEN)
        subject = Subject(batch.pipeline, self.attempt_id, batch.generation, batch.batch_id)
        record(self._tables.quality, subject, found)
        return found

    def _how_to_keep(self, work: _Work, found: _Found) -> Callable[..., None] | None:
        """How to write the quarantine; None if it already holds what this attempt sets aside (I8, I11).

        An earlier attempt may have written it before somebody changed the pipeline file or the suite. Then this attempt
        replaces its records. Otherwise a record that only this attempt sets aside would be in neither table.
        """
        marker, earlier = landed_and_marker(self._tables.quarantine, work.batch)
        if marker is None or marker < work.batch.batch_id:
            return append_quarantine if found.counts.quarantined else None
        same = earlier is not None and earlier.metadata.set_aside == found.set_aside
        return None if same else replace_quarantine

    def _beside(self, work: _Work, judged: DataFrame, read: Volume, found: _Found) -> Iterator[_Beside]:
        """The tables into which changes are merged before the target, which is the batch's commit point (I11)."""
        if self._tables.history is not None:
            spec = TableSpec.of_history(self.pipeline)
            all_changes = folded(dispositions(judged, self.pipeline, mine=F.lit(True)), spec)
            every = reduce_changes(judged, all_changes, self.pipeline, read)
            metadata = self._metadata(work, "history", replace(found, counts=every.counts))
            yield _Beside(self._tables.history, every, metadata, spec)
        for place, (name, uri) in enumerate(self._tables.routes.items()):
            spec = TableSpec.of_route(self.pipeline, name)
            of_route = folded(dispositions(judged, self.pipeline, is_for(place)), spec)
            mine = reduce_changes(judged, of_route, self.pipeline, read)
            metadata = self._metadata(work, "route", replace(found, counts=mine.counts))
            yield _Beside(uri, mine, metadata, spec)

    def _land_beside(self, spark: SparkSession, work: _Work, beside: _Beside, prunes: bool) -> None:
        """Merges the batch into a table beside the target. An earlier attempt may have done so before somebody changed
        the pipeline file: then the rows that differ are written again, under the marker that is there."""
        ensure(spark, beside.uri, beside.spec)
        changes = beside.reduced.hinted
        for tries_left in reversed(range(_MERGES_MAX)):
            marker, _ = landed_and_marker(beside.uri, work.batch)
            replaces = marker is not None and marker >= work.batch.batch_id
            if replaces and self._guard(work) is not None:
                return  # the whole batch has landed meanwhile
            try:
                merge_beside(
                    spark,
                    beside.uri,
                    changes,
                    beside.spec,
                    metadata=beside.metadata,
                    replaces=replaces,
                    prunes=prunes,
                )
                return
            except Exception as error:
                changes = self._again_with(error, tries_left, changes, beside.reduced)

    def _ceiling(self, work: _Work) -> Ceiling:
        if work.records is not None:
            return Ceiling(None, None)  # a replay: the records that it sets aside were set aside before
        quality = self.pipeline.quality
        return Ceiling(quality.quarantine_max_percent, quality.quarantine_max_records)

    def _merge(self, spark: SparkSession, work: _Work, reduced: Reduced, found: _Found, prunes: bool) -> bool:
        """Merges the batch into the target. True if this attempt's commit is the batch's, False if another one's is.

        Whatever goes wrong, this reads the target's log first. If two attempts run at once, the slower one gets one of
        many kinds of conflict and finds the batch applied (I5). A lost answer may belong to a commit that landed (I6).
        After a conflict with other work (a backfill's chunk, a foreign writer) only the MERGE is repeated.
        """
        spec = TableSpec.of_target(self.pipeline)
        ensure(spark, work.target, spec)
        metadata = self._metadata(work, "target", found)
        fault_point("attempt.before_merge")
        changes = reduced.hinted
        for tries_left in reversed(range(_MERGES_MAX)):
            try:
                if merge_changes(spark, work.target, changes, spec, metadata=metadata, prunes=prunes):
                    return True
                break
            except Exception as error:
                if self._guard(work) is not None:
                    return False
                changes = self._again_with(error, tries_left, changes, reduced)
        self._guard(work)  # the attempt that landed it read the same ranges, or this raises
        return False

    def _again_with(self, error: Exception, tries_left: int, tried: DataFrame, reduced: Reduced) -> DataFrame:
        """The changes with which a failed MERGE is tried again.

        Raises:
            error: another try would be no better.
        """
        if tries_left and is_conflict(error):
            self._say({"progress": "conflict"})
            return tried
        if tries_left and is_short_of_memory(error) and tried is not reduced.changes:
            self._say({"progress": "memory"})
            return reduced.changes
        raise error

    def _say(self, fact: JsonObject) -> None:
        """Says progress. Every line names its pipeline, batch and attempt."""
        about = {"pipeline": self.pipeline.name, **self.key._asdict(), "attempt_id": self.attempt_id}
        self.say({**fact, **about})

    def _guard(self, work: _Work) -> AlreadyApplied | None:
        marker, landed = landed_and_marker(work.target, work.batch)
        fingerprint = None if landed is None else landed.metadata.fingerprint
        match guard(work.batch, marker, fingerprint, work.generation):
            case AlreadyApplied() as already:
                return already
            case _:
                return None

    def _verify_source(self, batch: Batch) -> None:
        verify_source(batch, source_extent(self.pipeline.source))

    def _metadata(self, work: _Work, role: Role, found: _Found) -> CommitMetadata:
        return CommitMetadata.of(
            work.batch,
            role,
            found.counts,
            work.next_offsets,
            attempt_id=self.attempt_id,
            code_version=self.settings.code_version,
            quality=None if found.verdict is None else found.verdict.to_json(),
            set_aside=found.set_aside,
            of_history=role == "history" or (role in ("target", "route") and self.pipeline.change.history == "scd2"),
            truncated=role == "target" and found.truncated,
        )

    def _ended(
        self, batch: Batch, outcome: str, phase_seconds: dict[str, float], problem: str | None = None
    ) -> AttemptEnded:
        return AttemptEnded(
            batch.generation,
            batch.batch_id,
            self.attempt_id,
            outcome=outcome,
            phase_seconds=phase_seconds,
            problem=problem,
        )

    def _record(self, event: AttemptStarted | AttemptEnded) -> None:
        self._ledger.append(lambda state: [event], about=self.key)

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self._tables.ledger)

    @property
    def _tables(self) -> Tables:
        return Tables.of(self.settings, self.pipeline)
