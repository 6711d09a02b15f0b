"""The logs of tables on a POSIX file system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from include.lake.log_store import LOG, CheckpointHint, Commit, Tail, checkpoint_file, commit_file
from include.lake.posix.errors import answering
from include.lake.posix.publishing import published
from include.lake.uri import LakeUri

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PosixLogStore:
    """A log whose commits are hard links: a commit is there in full or not at all, and one of two writers wins.

    A commit's bytes are on the disk before it gets its name, so a loss of power leaves no empty commit. The name itself
    is as durable as the file system makes it.
    """

    is_tied: ClassVar[bool] = False
    table: LakeUri

    @property
    def _folder(self) -> str:
        return f"{self.table}/{LOG}"

    def exists(self) -> bool:
        return Path(self._folder).is_dir()

    def read(self, version: int) -> bytes | None:
        try:
            with answering(self.table):
                return Path(self._folder, commit_file(version)).read_bytes()
        except FileNotFoundError:
            return None

    def has(self, version: int) -> bool:
        return Path(self._folder, commit_file(version)).exists()

    def read_all(self, versions: Sequence[int]) -> list[bytes | None]:
        return [self.read(version) for version in versions]

    def tail(self) -> Tail | None:
        if (told := self.last_checkpoint()) is None:
            return Tail(-1, self.commits(0))
        hint = CheckpointHint.of(told)
        if hint is None or not self.has_checkpoint(hint.version):
            return None
        return Tail(hint.version, self.commits(hint.version))

    def commits(self, since: int) -> list[Commit]:
        """By name: to list a folder with ten thousand commits takes far longer."""
        found: list[Commit] = []
        version = since
        while True:
            stamp = self.stamp(version)
            if stamp is None and self.has(version + 1):  # it may have come since, and its successor after it
                stamp = self.stamp(version)
                version += stamp is None
                stamp = stamp or self.stamp(version)
            if stamp is None:
                return found
            found.append(Commit(version, stamp))
            version += 1

    def is_empty(self, version: int) -> bool | None:
        try:
            size = os.stat(f"{self._folder}/{commit_file(version)}").st_size  # noqa: PTH116 - hundreds, at each opening
        except FileNotFoundError:
            return None
        return size == 0

    def stamp(self, version: int) -> str | None:
        try:
            changed = Path(self._folder, commit_file(version)).stat().st_mtime_ns
        except FileNotFoundError:
            return None
        return str(changed // 1000)  # Java tells microseconds

    def create(self, version: int, content: bytes, succeeds: str | None = None) -> bool:
        if version > 0 and not (self.has(version - 1) or self.has_checkpoint(version - 1)):
            return False
        if succeeds is not None and self.stamp(version - 1) != succeeds:
            return False
        with answering(self.table):
            return published(Path(self._folder, commit_file(version)), content)

    def last_checkpoint(self) -> bytes | None:
        try:
            return Path(self._folder, "_last_checkpoint").read_bytes()
        except OSError:
            return None

    def has_checkpoint(self, version: int) -> bool:
        return Path(self._folder, checkpoint_file(version)).exists()

    def read_checkpoint(self, version: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa  # slow to import (a quarter of a second), and few callers need it
        import pyarrow.parquet as pq

        try:
            with answering(self.table):
                file = pq.ParquetFile(Path(self._folder, checkpoint_file(version)))
                return file.read(list(columns), use_threads=False)
        except pa.ArrowException as error:
            raise OSError(str(error)) from error

    def changed_at(self) -> int | None:
        try:
            return Path(self._folder).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def entries(self) -> int:
        with answering(self.table):
            return sum(1 for _ in os.scandir(self._folder))
