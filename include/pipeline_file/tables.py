"""Where tables lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from include.pipeline_file import Pipeline
from include.protocol.backfill import Backfill
from include.settings import Settings


@dataclass(frozen=True)
class Tables:
    """The paths of a pipeline's tables. Of a landing the archive is the target.

    `lake://` is one folder. Delta's commits rely on its atomic rename (a local or POSIX file system), so Spark and
    deltalake both find one order of commits.
    """

    target: str
    history: str | None  # of a pipeline whose target is not history itself
    archive: str | None
    is_archive_source: bool  # the archive is not written by batches of this pipeline, but read
    routes: Mapping[str, str]  # by the tables' names: those that some of the changes go to
    quarantine: str
    ledger: str
    resolutions: str  # what became of quarantined records: replayed or discarded
    quality: str  # what suites said
    backfills: str  # folder of the tables that are to take the target's place

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline) -> Self:
        own = f"{settings.lake}/_lakemark"
        return cls(
            target=table_path(settings, pipeline.target.table),
            history=table_path(settings, history) if (history := pipeline.target.history_table) else None,
            archive=table_path(settings, pipeline.archive) if pipeline.archive else None,
            is_archive_source=pipeline.merge_every is not None,
            routes={route.table: table_path(settings, route.table) for route in pipeline.target.routes},
            quarantine=f"{own}/quarantine/{pipeline.name}",
            ledger=f"{own}/ledger/{pipeline.name}",
            resolutions=f"{own}/resolutions/{pipeline.name}",
            quality=f"{own}/quality/{pipeline.name}",
            backfills=f"{own}/backfill/{pipeline.name}",
        )

    @property
    def beside_target(self) -> Mapping[str, str]:
        """By their roles, those that a batch writes before the target."""
        archive = None if self.is_archive_source else self.archive
        roles = {"archive": archive, "quarantine": self.quarantine, "history": self.history, **self.routes}
        return {role: path for role, path in roles.items() if path is not None}

    @property
    def of_users(self) -> tuple[str, ...]:
        """Those that the pipeline file names, and batches write."""
        return tuple(filter(None, (self.target, self.history, self.archive, *self.routes.values())))

    @property
    def written(self) -> frozenset[str]:
        """All that its batches, its backfills, its suites and its ledger write."""
        beside = self.beside_target.values()
        return frozenset((self.target, *beside, self.ledger, self.resolutions, self.quality, self.backfills))

    def records_of(self, backfill: Backfill) -> str | None:
        """Where the records of a replay are; None for what reads Kafka."""
        return None if backfill.records is None else f"{self.backfills}/{backfill.records}"

    def target_of(self, backfill: Backfill) -> str:
        """Where its chunks land."""
        return self.target if backfill.into == "same" else f"{self.backfills}/{backfill.number}"


def table_path(settings: Settings, table: str) -> str:
    """Where `lake://layer/table` lies."""
    return f"{settings.lake}/{table.removeprefix('lake://')}"
