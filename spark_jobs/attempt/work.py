"""What an attempt has to do: a batch or a backfill's chunk, and what the ledger says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.participants.point import verify_point
from include.participants.records import ARCHIVE
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import Batch, BatchKey
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position, Positions
from include.protocol.planning import verify_source
from include.protocol.ranges import TopicPartition
from include.settings import Settings
from include.sources.archive import ArchiveSource
from include.sources.kafka import source_extent
from include.sources.landing import LandingSource
from spark_jobs.changes.records import no_records, read_by_librdkafka, read_frozen, read_records
from spark_jobs.tables.archive import read_archive


@dataclass(frozen=True)
class Work:
    """A batch, and what the ledger says about it."""

    pipeline: Pipeline
    batch: Batch
    target: LakeUri  # the table of the point
    state: LedgerState
    next_offsets: Mapping[TopicPartition, int]  # once the batch has landed; empty for a backfill, which moves none
    stands_on: Positions  # where the tables before the point must stand
    is_committed: bool = False  # the ledger says that it has landed
    makes_new_table: bool = False  # a chunk of a backfill into a new table, which readers do not see yet
    records: LakeUri | None = None  # a replay's own records
    archive: LakeUri | None = None  # if the records come from the archive
    begun: GenerationStarted | None = None  # how its generation began; None: the first one, or a chunk

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline, key: BatchKey, state: LedgerState) -> Self:
        """The batch, or a backfill's chunk, as the ledger has it.

        Args:
            state: the ledger's, at least as much of it as the batch needs.

        Raises:
            FencedGeneration: its generation has ended, or the backfill was cancelled. TerminalError: it was never
            planned.
        """
        tables = Tables.of(settings, pipeline)
        record = state.planned(pipeline.name, key)
        batch = record.batch
        if batch.is_chunk:
            backfill = state.backfill(pipeline.name, -batch.generation)
            archive = None
            if backfill.from_archive:
                archive = ArchiveSource.of(settings, pipeline, state).verified_uri()
            return cls(
                pipeline,
                batch,
                target=tables.target_of(backfill),
                state=state,
                next_offsets={},
                stands_on=state.positions,
                makes_new_table=backfill.into == "new",
                records=tables.records_of(backfill),
                archive=archive,
            )
        merged_from = None
        if tables.is_archive_source and batch.ranges:
            merged_from = LandingSource.of(settings, pipeline).verified_uri(state)
        # The batch to apply is the last one planned, so the ledger's next offsets are where it ends.
        return cls(
            pipeline,
            batch,
            target=tables.target,
            state=state,
            next_offsets=state.next_offsets,
            stands_on=record.stands_on,
            is_committed=record.commit is not None,
            archive=merged_from,
            begun=next((g for g in state.generations if g.generation == batch.generation), None),
        )

    def writes(self, participant: Participant) -> bool:
        """Whether the batch writes this table before the point. A chunk brings no records that the archive lacks; one
        that makes a new table leaves the other tables of changes alone, which readers see."""
        if not self.batch.is_chunk:
            return True
        return participant.by_chunks and not (self.makes_new_table and participant.spec.kind != "append")

    @property
    def positions_without_it(self) -> dict[str, Position]:
        """Where each table stands if the batch does not write it: the pipeline file leaves it out for now. An archive
        that the batch reads holds its records already."""
        has_it = {ARCHIVE} if self.archive is not None else set()
        lacks = self.stands_on.keys() - has_it if self.batch.ranges else set()
        return {name: replace(at, left_out=at.left_out or name in lacks) for name, at in self.stands_on.items()}

    @property
    def chunk_leaves_out(self) -> tuple[str, ...]:
        """The tables that a chunk should write, as live batches have done, and that the pipeline file leaves out: also
        one that a live batch has left out already, since a chunk may have read what lies before that batch."""
        if not self.batch.is_chunk or self.makes_new_table:
            return ()
        unwritten = self.stands_on.keys() - {p.name for p in Catalog.of(self.pipeline).before} - {ARCHIVE}
        return tuple(sorted(unwritten - self.state.left_out))

    @property
    def generation(self) -> int:
        """The ledger's."""
        return self.state.generation

    def verify_target(self, log: TableLog | None) -> None:
        """Checks that the target is as the last landed batch has left it. A plan has checked that, too, but somebody
        may have restored or replaced the table since; a batch that lands over that hides it. A chunk follows no batch.

        Args:
            log: the target's, as it is now; None: there is no such table.

        Raises:
            TargetBehindLedger: see `verify_point`.
        """
        if self.batch.is_chunk:
            return
        verify_point(self.pipeline.name, self.state, log)

    @property
    def is_replay(self) -> bool:
        return self.records is not None

    def read(self, spark: SparkSession, with_headers: bool, safely: bool = False, keeps: bool = True) -> DataFrame:
        """The records. They are read at their first use, and kept for the attempt.

        Args:
            safely: the first use has failed at a timestamp (`is_of_a_timestamp`). keeps: false if one use is expected:
                what Kafka holds is then not kept.

        Raises:
            OffsetsExpired, TopicRecreated: Kafka no longer holds them.
        """
        source, batch = self.pipeline.source, self.batch
        if not batch.ranges:
            return no_records(spark, with_headers)
        if self.records is not None:
            return read_frozen(spark, self.records, source, batch)
        if self.archive is not None:
            return read_archive(spark, self.archive, source, batch)
        self.verify_source()
        if safely:
            return read_by_librdkafka(spark, source, batch, with_headers)
        return read_records(spark, source, batch, with_headers, keeps=keeps)

    def verify_source(self) -> None:
        """Checks that Kafka holds the ranges, if the records come from there."""
        if self.batch.ranges and self.records is None and self.archive is None:
            verify_source(self.batch, source_extent(self.pipeline.source))
