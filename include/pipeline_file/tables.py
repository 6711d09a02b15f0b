"""Finds where the tables of a pipeline lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.backfill import Backfill
from include.settings import Settings


@dataclass(frozen=True)
class Tables:
    """The places of a pipeline's tables. The target of a landing is the archive."""

    target: LakeUri
    history: LakeUri | None  # only for a pipeline whose target is not history itself
    archive: LakeUri | None
    is_archive_source: bool  # batches of this pipeline read the archive and do not write it
    routes: Mapping[str, LakeUri]  # tables for some of the changes, by name
    quarantine: LakeUri
    ledger: LakeUri
    resolutions: LakeUri  # what happened to quarantined records: replayed or discarded
    quality: LakeUri  # the results of suites
    backfills: LakeUri  # folder for the new tables that will take the target's place

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline) -> Self:
        own = settings.lake / "_lakemark"
        return cls(
            target=table_uri(settings, pipeline.target.table),
            history=table_uri(settings, history) if (history := pipeline.target.history_table) else None,
            archive=table_uri(settings, pipeline.archive) if pipeline.archive else None,
            is_archive_source=pipeline.merge_every is not None,
            routes={route.table: table_uri(settings, route.table) for route in pipeline.target.routes},
            quarantine=own / f"quarantine/{pipeline.name}",
            ledger=own / f"ledger/{pipeline.name}",
            resolutions=own / f"resolutions/{pipeline.name}",
            quality=own / f"quality/{pipeline.name}",
            backfills=own / f"backfill/{pipeline.name}",
        )

    @property
    def of_users(self) -> tuple[LakeUri, ...]:
        """The tables that the pipeline file names and that batches write."""
        return tuple(filter(None, (self.target, self.history, self.archive, *self.routes.values())))

    @property
    def written(self) -> frozenset[LakeUri]:
        """All tables that the pipeline's batches, backfills, suites and ledger write."""
        own = (self.quarantine, self.ledger, self.resolutions, self.quality, self.backfills)
        return frozenset((*self.of_users, *own))

    def records_of(self, backfill: Backfill) -> LakeUri | None:
        """Where the records of a replay are; None for a backfill that reads Kafka."""
        return None if backfill.records is None else self.backfills / backfill.records

    def target_of(self, backfill: Backfill) -> LakeUri:
        """Where the chunks of a backfill land."""
        return self.target if backfill.into == "same" else self.backfills / str(backfill.number)


def table_uri(settings: Settings, table: str) -> LakeUri:
    """Where `lake://layer/table` lies."""
    return settings.lake / table.removeprefix("lake://")
