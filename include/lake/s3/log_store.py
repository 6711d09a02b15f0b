"""A table's log on an S3-compatible store: a conditional request creates a commit, and one of two writers wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from include.lake.log_store import LOG, Commit, checkpoint_file, commit_file
from include.lake.s3.creating import created
from include.lake.s3.object_file import opened
from include.lake.s3.objects import Place, listed
from include.lake.uri import LakeUri

if TYPE_CHECKING:
    import pyarrow as pa


_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class S3LogStore:
    """See `LogStore`."""

    table: LakeUri

    @property
    def _folder(self) -> Place:
        return Place.of(self.table / LOG)

    def _commit(self, version: int) -> Place:
        return Place.of(self.table / LOG / commit_file(version))

    def exists(self) -> bool:
        return any(True for _ in listed(self._folder, at_most=1))

    def read(self, version: int) -> bytes | None:
        try:
            return self._commit(version).read()
        except FileNotFoundError:
            return None

    def has(self, version: int) -> bool:
        return self.stamp(version) is not None

    def commits(self, since: int) -> list[Commit]:
        found = ((_COMMIT.fullmatch(f.key.rpartition("/")[2]), f.tag) for f in listed(self._folder, f"{since:020}.jso"))
        return [Commit(int(name[1]), tag) for name, tag in found if name is not None]

    def is_empty(self, version: int) -> bool | None:
        """An object is there in full or not at all: none is asked for."""
        return None

    def stamp(self, version: int) -> str | None:
        """The store's tag of the content. Every commit has something of its own in it: an id, or names of files."""
        try:
            return str(self._commit(version).head()["ETag"]).strip('"')
        except FileNotFoundError:
            return None

    def create(self, version: int, content: bytes, succeeds: str | None = None) -> bool:
        if version > 0:
            before = self.stamp(version - 1)
            if succeeds is not None and before != succeeds:
                return False
            if before is None and not self.has_checkpoint(version - 1):
                return False
        place = self._commit(version)
        return created(place.bucket, place.key, content)

    def last_checkpoint(self) -> bytes | None:
        try:
            return Place.of(self.table / LOG / "_last_checkpoint").read()
        except OSError:
            return None

    def has_checkpoint(self, version: int) -> bool:
        try:
            Place.of(self.table / LOG / checkpoint_file(version)).head()
        except FileNotFoundError:
            return False
        return True

    def read_checkpoint(self, version: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa  # slow to import (a quarter of a second), and few callers need it
        import pyarrow.parquet as pq

        place = Place.of(self.table / LOG / checkpoint_file(version))
        try:
            with opened(place.bucket, place.key) as content:
                return pq.ParquetFile(content).read(list(columns), use_threads=False)
        except pa.ArrowException as error:
            raise OSError(str(error)) from error

    def changed_at(self) -> int | None:
        newest = max((found.changed for found in listed(self._folder)), default=None)
        return None if newest is None else int(newest.timestamp() * 1_000_000_000)

    def entries(self) -> int:
        count = sum(1 for _ in listed(self._folder))
        if not count:
            raise FileNotFoundError(str(self._folder))
        return count
