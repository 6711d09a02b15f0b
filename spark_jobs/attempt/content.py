"""What a batch holds: decoded, judged and reduced once, at the first use; and what of it goes into each table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.fault_points import fault_point
from include.lake.sql import spark_name
from include.participants.catalog import Catalog
from include.participants.engines import bytes_max
from include.participants.participant import POINT, Participant
from include.participants.program import digest_of, program_of
from include.pipeline_file.table_spec import TableSpec
from include.pipeline_file.tables import Tables
from include.protocol.counts import SourceCounts
from include.quality.evidence import Subject, record
from include.quality.judge import Judge, judge_of
from include.quality.verdict import Ceiling, Verdict, verify_gate
from include.settings import Settings
from spark_jobs.attempt.part import Part
from spark_jobs.attempt.phases import Phases
from spark_jobs.attempt.reading import Reading
from spark_jobs.attempt.work import Work
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import accepted_in, digest_of_rows, dispositions, is_for, set_aside_in
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.changes.quality import BROKEN, judgement
from spark_jobs.changes.reduction import Reduced, reduce_changes
from spark_jobs.changes.suite_check import verify_suite
from spark_jobs.changes.transform import transformation
from spark_jobs.engine.failures import is_of_rows, is_too_large
from spark_jobs.engine.rows import TooManyBytesError, collected
from spark_jobs.tables.merging import folded

T = TypeVar("T")
_SURELY_FEW = 20_000  # records, which are not counted first
_REASON = "_lakemark_reason"


@dataclass
class Content:
    """A batch's records, and what is made of them.

    Args:
        with_headers: the records have them. lanes: the names of the tables that are written without Spark: what goes
            there is brought to this process.
    """

    spark: SparkSession
    settings: Settings
    work: Work
    attempt_id: str
    phases: Phases
    with_headers: bool
    lanes: Collection[str]
    _judged_records: tuple[DataFrame, DataFrame] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # Where one pass over the records does all, nothing keeps them.
        keeps = self._counts_first or self._keeps_judged
        self._reading = Reading(self.spark, self.work, self.with_headers, keeps)
        if self._counts_first:
            volume = self._reading.at_first_use(self._reading.volume)
            if self._bytes_max is not None and volume.bytes > self._bytes_max:
                self.lanes = ()

    @cached_property
    def _bytes_max(self) -> int | None:
        """What each table that is written without Spark may bring to this process."""
        participants = Catalog.of(self.work.pipeline).participants
        parts = (p.spec for p in participants if p.name in self.lanes and p.takes != "set aside")
        return bytes_max(self.settings, parts)

    @property
    def _counts_first(self) -> bool:
        """Whether the records are counted before they are reduced. Where changes are collected, the pass that reduces
        records counts them, too. A transform makes other numbers of rows, and an archive gets the records first. Many
        records may be too large to be collected."""
        catalog, batch = Catalog.of(self.work.pipeline), self.work.batch
        has_archive = any(p.takes == "records" and self.work.writes(p) for p in catalog.participants)
        is_plain = not has_archive and self.work.pipeline.transform is None
        return not is_plain or POINT not in self.lanes or batch.width > _SURELY_FEW

    def part(self, participant: Participant) -> Part:
        """What goes into a table. Records are decoded and judged before the first table that needs it.

        Raises:
            QualityGate: a rule stops the whole batch; nothing that was decoded has landed then.
        """
        match participant.takes:
            case "records":
                with self.phases.phase(participant.phase):
                    return self._here_if_few(participant.name, self._of_records)
            case "set aside":
                self._reduced  # noqa: B018  in a phase of its own
                with self.phases.phase(participant.phase):
                    return self._here_if_few(participant.name, self._of_what_is_set_aside)
            case "accepted":
                self._reduced  # noqa: B018  as above
                with self.phases.phase(participant.phase):
                    return self._here_if_few(participant.name, self._of_what_is_accepted)
            case "changes" if participant.route is None:
                return self._of_changes(self._reduced)
        self._reduced  # noqa: B018  the gate comes first
        mine = F.lit(True) if participant.takes == "all changes" else is_for(participant.route)
        assert isinstance(participant.spec, TableSpec)
        reduce = partial(self._reduce, mine, participant.spec, with_content=True)
        with self.phases.phase(participant.phase):
            return self._of_changes(self._here_if_few(participant.name, reduce))

    def _here_if_few(self, table: str, make: Callable[[bool], T]) -> T:
        """What goes into a table. Args: make: makes it; told whether to bring it to this process.

        Spark brings no more than `spark.driver.maxResultSize`, and this process has its own limit. What a batch holds
        must not fail it: then all of it stays with Spark.
        """
        if table in self.lanes:
            try:
                return make(True)
            except Exception as error:
                if not (isinstance(error, TooManyBytesError) or is_too_large(error)):
                    raise
                self.lanes = ()
                self._reading.keep()
        return make(False)

    def _of_records(self, is_collected: bool) -> Part:
        read, batch = self._reading.volume().records, self.work.batch
        ids = F.create_map(*(F.lit(text) for pair in sorted(batch.topic_ids.items()) for text in pair))
        rows = self._reading.records.withColumn("topic_id", ids[F.col("topic")])
        counts = SourceCounts(read, quarantined=0, filtered=0, superseded=0, changes=read)
        digest = digest_of("records", batch.fingerprint)
        kept = self._kept(lambda: rows, is_collected and read > 0).stamped(batch)
        return Part(kept, counts, digest, is_empty=not read)

    def _of_what_is_set_aside(self, is_collected: bool) -> Part:
        found = self._reduced
        if found.counts.quarantined:
            self._reading.keep_set_aside(lambda: self._judged, found)
        return self._as_they_are(
            "set aside",
            lambda: set_aside_in(self._judged),
            count=found.counts.quarantined,
            content=found.set_aside,
            is_collected=is_collected,
        )

    def _of_what_is_accepted(self, is_collected: bool) -> Part:
        accepted = accepted_in(dispositions(self._judged, self.work.pipeline), self.work.pipeline)
        content = digest_of_rows(accepted) if self.work.pipeline.transform is not None else None
        count = self._reduced.counts.changes
        return self._as_they_are("accepted", lambda: accepted, count=count, content=content, is_collected=is_collected)

    def _as_they_are(
        self, what: str, make: Callable[[], DataFrame], count: int, content: str | None, is_collected: bool
    ) -> Part:
        """Rows of what was judged, none of them reduced. Args: count: 0 if there are none. content: their digest."""
        return Part(
            self._kept(make, is_collected and count > 0).stamped(self.work.batch),
            self._reduced.counts,
            digest_of(what, self._program, self.work.batch.fingerprint, content),
            is_empty=not count,
            set_aside=self._reduced.set_aside,
            quality=self._verdict,
        )

    def _of_changes(self, reduced: Reduced) -> Part:
        return Part(
            reduced.changes,
            reduced.counts,
            digest_of("changes", self._program, self.work.batch.fingerprint, reduced.content),
            set_aside=self._reduced.set_aside,
            truncated=reduced.truncated,
            quality=self._verdict,
        )

    def _kept(self, make: Callable[[], DataFrame], is_collected: bool) -> KeptRows:
        """Rows that Spark computes from what it has kept, or that this process gets now."""
        return KeptRows(make, collected(make(), self._bytes_max) if is_collected else None)

    @property
    def _judge(self) -> Judge | None:
        """Judges the batch; None if there is no suite. A batch without ranges holds nothing to judge."""
        return self._suites_judge if self.work.batch.ranges else None

    def _verify_suite(self) -> None:
        """Raises SuiteError if the suite is to blame. It costs a query, which a suite that works does not pay."""
        if self._judge is not None:
            verify_suite(self.spark, self._judge, self.work.pipeline.columns)

    @cached_property
    def _suites_judge(self) -> Judge | None:
        return judge_of(self.settings, self.work.pipeline)

    @cached_property
    def _program(self) -> str:
        judge = self._suites_judge
        return program_of(self.settings, self.work.pipeline, None if judge is None else judge.suite.fingerprint)

    @cached_property
    def _reduced(self) -> Reduced:
        """What the target gets. The suite has judged it, and the gate has let it through."""
        with self.phases.phase("decode"):
            try:
                is_first = not self._reading.is_read
                reduce = self._reduce_for_target
                found = self._reading.at_first_use(reduce) if is_first else reduce()
            except PySparkException:
                self._verify_suite()
                raise
        counts = found.counts
        verify_gate(
            str(self.work.batch), self._verdict, self._ceiling, quarantined=counts.quarantined, read=counts.read
        )
        return found

    def _reduce_for_target(self) -> Reduced:
        return self._here_if_few(POINT, partial(self._reduce, is_for(None), TableSpec.of_target(self.work.pipeline)))

    def _reduce(self, mine: Column, spec: TableSpec, collects: bool, with_content: bool = False) -> Reduced:
        pipeline, batch = self.work.pipeline, self.work.batch
        rows = folded(dispositions(self._judged, pipeline, mine), spec)
        judged, read = self._judged, self._reading.volume
        return reduce_changes(
            judged,
            rows,
            pipeline,
            batch,
            read=read,
            with_content=with_content,
            collects=collects,
            bytes_max=self._bytes_max,
        )

    @property
    def _judged(self) -> DataFrame:
        """The records as they are read now, decoded and judged."""
        records = self._reading.records
        if self._judged_records is None or self._judged_records[0] is not records:
            self._judged_records = records, self._judged_of(records)
        return self._judged_records[1]

    def _judged_of(self, records: DataFrame) -> DataFrame:
        pipeline = self.work.pipeline
        transform = transformation(self.spark, self.settings, pipeline, self.work.batch)
        try:
            judged = decode(records, pipeline, judge=self._judge, transform=transform)
            if transform is not None:  # its errors are explained here; all others can wait for the pass that reduces
                return judged.localCheckpoint(eager=True)
            # The quarantine decodes what it needs once more: few records or none, and it depends on the record alone.
            return judged.localCheckpoint(eager=False) if self._keeps_judged else judged
        except Exception as error:
            if transform is not None and is_of_rows(error):
                raise transform.explained(error) from error
            raise

    @property
    def _keeps_judged(self) -> bool:
        """Whether there are more readers of what was judged than the pass that reduces it for the target."""
        others = [p for p in Catalog.of(self.work.pipeline).participants if p.place == "before"]
        return self._judge is not None or any(isinstance(p.spec, TableSpec) or p.takes == "accepted" for p in others)

    @cached_property
    def _verdict(self) -> Verdict | None:
        """The suite's verdict. It is recorded, whatever becomes of the batch."""
        judge, batch = self._judge, self.work.batch
        if judge is None:
            return None
        with self.phases.phase("judge"):
            rows = self._judged.where("judged").select(
                "row.*", F.col("broken").alias(BROKEN), F.col("reason").alias(_REASON)
            )
            names = (spark_name(column.name) for column in self.work.pipeline.columns)
            accepted = rows.where(F.col(_REASON).isNull()).select(*names)
            try:
                found = judgement(self.spark, self.settings, judge, rows=rows, accepted=accepted, broken=BROKEN)
            except PySparkException:
                self._verify_suite()
                raise
            if found.breaks_all:
                self._verify_suite()
            subject = Subject(batch.pipeline, self.attempt_id, batch.generation, batch.batch_id)
            record(Tables.of(self.settings, self.work.pipeline).quality, subject, found)
        fault_point("attempt.judged")
        return found

    @property
    def _ceiling(self) -> Ceiling:
        if self.work.is_replay:
            return Ceiling(None, None)  # the records that it sets aside were set aside before
        quality = self.work.pipeline.quality
        return Ceiling(quality.quarantine_max_percent, quality.quarantine_max_records)
