"""Finds where the tables of a pipeline lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.backfill import Backfill
from include.protocol.savepoints import TABLES, folder_of
from include.settings import Settings


@dataclass(frozen=True)
class Tables:
    """The places of what a pipeline reads and keeps, and of its target: of a landing, that is the archive. All that its
    batches write, `include.participants.catalog` knows."""

    target: LakeUri
    archive: LakeUri | None
    is_archive_source: bool  # batches of this pipeline read the archive and do not write it
    quarantine: LakeUri
    ledger: LakeUri
    resolutions: LakeUri  # what happened to quarantined records: replayed or discarded
    quality: LakeUri  # the results of suites
    backfills: LakeUri  # folder for the new tables that will take the target's place
    checkpoints: LakeUri  # folder for frozen versions, whose logs outlive log clean-up
    savepoints: LakeUri  # folder of the pipeline's savepoints, each in a folder by its name

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline) -> Self:
        own = settings.lake / "_lakemark"
        return cls(
            target=table_uri(settings, pipeline.target.table),
            archive=table_uri(settings, pipeline.archive) if pipeline.archive else None,
            is_archive_source=pipeline.merge_every is not None,
            quarantine=own / f"quarantine/{pipeline.name}",
            ledger=own / f"ledger/{pipeline.name}",
            resolutions=own / f"resolutions/{pipeline.name}",
            quality=own / f"quality/{pipeline.name}",
            backfills=own / f"backfill/{pipeline.name}",
            checkpoints=own / f"checkpoints/{pipeline.name}",
            savepoints=own / f"savepoints/{pipeline.name}",
        )

    @property
    def own(self) -> tuple[LakeUri, ...]:
        """The tables and folders that no pipeline file names."""
        own = (self.quarantine, self.ledger, self.resolutions, self.quality, self.backfills)
        return (*own, self.checkpoints, self.savepoints)

    def frozen(self, table_id: str | None, version: int) -> LakeUri:
        """Where a version of a table is frozen, if it is."""
        return self.checkpoints / f"{table_id}/{version}"

    def saved(self, savepoint: str, participant: str) -> LakeUri:
        """Where a savepoint has a table."""
        return self.savepoints / savepoint / TABLES / folder_of(participant)

    def records_of(self, backfill: Backfill) -> LakeUri | None:
        """Where the records of a replay are; None for a backfill that reads Kafka."""
        return None if backfill.records is None else self.backfills / backfill.records

    def target_of(self, backfill: Backfill) -> LakeUri:
        """Where the chunks of a backfill land."""
        return self.target if backfill.into == "same" else self.backfills / str(backfill.number)


def table_uri(settings: Settings, table: str) -> LakeUri:
    """Where `lake://layer/table` lies."""
    return settings.lake / table.removeprefix("lake://")
