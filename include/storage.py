"""Where tables lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from include.settings import Settings

SCHEME = "lake://"


@dataclass(frozen=True)
class Lake:
    """The folder that `lake://` stands for. Delta's commits rely on its atomic rename (a local or POSIX file
    system), so Spark and deltalake both find one order of commits."""

    root: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.lake)

    def path(self, table: str) -> str:
        """The path of `lake://silver/flights`."""
        if not table.startswith(SCHEME):
            raise ValueError(f"a table's name starts with {SCHEME}: {table!r}")
        return f"{self.root}/{table.removeprefix(SCHEME)}"

    def ledger(self, pipeline: str) -> str:
        return f"{self.root}/_lakemark/ledger/{pipeline}"

    def quarantine(self, pipeline: str) -> str:
        return f"{self.root}/_lakemark/quarantine/{pipeline}"

    def holds_table(self, path: str) -> bool:
        return (Path(path) / "_delta_log").is_dir()
