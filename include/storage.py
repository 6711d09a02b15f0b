"""Where tables lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from include.pipeline_file import Pipeline
from include.settings import Settings


@dataclass(frozen=True)
class Tables:
    """The paths of a pipeline's tables.

    `lake://` is one folder. Delta's commits rely on its atomic rename (a local or POSIX file system), so Spark and
    deltalake both find one order of commits.
    """

    target: str
    quarantine: str
    ledger: str

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline) -> Self:
        own = f"{settings.lake}/_lakemark"
        return cls(
            target=table_path(settings, pipeline.target.table),
            quarantine=f"{own}/quarantine/{pipeline.name}",
            ledger=f"{own}/ledger/{pipeline.name}",
        )


def table_path(settings: Settings, table: str) -> str:
    """Where `lake://layer/table` lies."""
    return f"{settings.lake}/{table.removeprefix('lake://')}"
