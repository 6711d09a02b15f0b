"""A table's log on an S3-compatible store: a conditional request creates a commit, and one of two writers wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, ClassVar

from include.lake.log_store import (
    LOG,
    CheckpointHint,
    Commit,
    Tail,
    checkpoint_file,
    checkpoint_of,
    commit_file,
    commit_of,
)
from include.lake.s3.creating import created
from include.lake.s3.kept import content_of, keep
from include.lake.s3.object_file import whole
from include.lake.s3.objects import Place, listed, tag_of
from include.lake.uri import LakeUri

if TYPE_CHECKING:
    import pyarrow as pa


_OTHER_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..+\.(parquet|json)")
_AT_ONCE = 8  # requests
# By table: the newest files of its log, with their tags, as the last look told them.
_listed: dict[LakeUri, dict[str, str]] = {}
_checkpoints: dict[LakeUri, int] = {}  # by table: a checkpoint that this process has seen


@dataclass(frozen=True)
class S3LogStore:
    """See `LogStore`. What a look at the log has told, and this process has read before, is not read again."""

    is_tied: ClassVar[bool] = True
    table: LakeUri

    @property
    def _folder(self) -> Place:
        return Place.of(self.table / LOG)

    def _file(self, name: str) -> Place:
        return Place.of(self.table / LOG / name)

    def _commit(self, version: int) -> Place:
        return self._file(commit_file(version))

    def _content(self, name: str) -> bytes:
        return content_of(self._file(name), _listed.get(self.table, {}).get(name, ""))

    def _look(self, after: str) -> dict[str, str]:
        """The files of the log behind a name, with their tags."""
        found = {file.key.rpartition("/")[2]: file.tag for file in listed(self._folder, after)}
        _listed[self.table] = found
        return found

    def exists(self) -> bool:
        return any(True for _ in listed(self._folder, at_most=1))

    def read(self, version: int) -> bytes | None:
        try:
            return self._content(commit_file(version))
        except FileNotFoundError:
            return None

    def read_all(self, versions: Sequence[int]) -> list[bytes | None]:
        if len(versions) < 2:
            return [self.read(version) for version in versions]
        with ThreadPoolExecutor(min(_AT_ONCE, len(versions))) as several:
            return [*several.map(self.read, versions)]

    def tail(self) -> Tail | None:
        """One listing, from a checkpoint on that this process knows; else from the one that the log names."""
        known = _checkpoints.get(self.table)
        if known is not None and (found := self._tail_from(known)) is not None:
            return found
        if (told := self.last_checkpoint()) is None:
            return Tail(-1, self.commits(0))
        hint = CheckpointHint.of(told)
        return self._tail_from(hint.version) if hint is not None and hint.is_one_file else None

    def _tail_from(self, checkpoint: int) -> Tail | None:
        """None if this checkpoint is not there, or a newer one is of another form."""
        names = self._look(f"{checkpoint:020}")
        newest = max((version for name in names if (version := checkpoint_of(name)) is not None), default=None)
        others = [int(of[1]) for of in map(_OTHER_CHECKPOINT.fullmatch, names) if of is not None]
        if checkpoint_file(checkpoint) not in names or newest is None or max(others, default=-1) > newest:
            return None
        _checkpoints[self.table] = newest
        return Tail(newest, [commit for commit in self._commits_in(names) if commit.version >= newest])

    def has(self, version: int) -> bool:
        return self.stamp(version) is not None

    def commits(self, since: int) -> list[Commit]:
        return self._commits_in(self._look(f"{since:020}.jso"))

    def _commits_in(self, names: dict[str, str]) -> list[Commit]:
        """The commits among the files of a log, in order. While others commit, a listing may have a commit without the
        one before it: that one is asked for by name. Args: names: with their tags, as a look told them."""
        told = {version: tag for name, tag in names.items() if (version := commit_of(name)) is not None}
        found: list[Commit] = []
        for version in sorted(told):
            while found and found[-1].version + 1 < version:
                between = found[-1].version + 1
                if (stamp := self.stamp(between)) is None:
                    break
                names[commit_file(between)] = stamp
                found.append(Commit(between, stamp))
            found.append(Commit(version, told[version]))
        return found

    def is_empty(self, version: int) -> bool | None:
        """An object is there in full or not at all: none is asked for."""
        return None

    def stamp(self, version: int) -> str | None:
        """The store's tag of the content. Every commit has something of its own in it: an id, or names of files."""
        try:
            return tag_of(self._commit(version).head())
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
        tag = created(place, content)
        if tag is not None:
            keep(place, tag, content)
        return tag is not None

    def last_checkpoint(self) -> bytes | None:
        try:
            return whole(self._file("_last_checkpoint"))[0]
        except OSError:
            return None

    def has_checkpoint(self, version: int) -> bool:
        try:
            self._file(checkpoint_file(version)).head()
        except FileNotFoundError:
            return False
        return True

    def read_checkpoint(self, version: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa  # slow to import (a quarter of a second), and few callers need it

        from include.lake.arrow import parquet_file

        try:
            content = BytesIO(self._content(checkpoint_file(version)))
            return parquet_file(content).read(list(columns), use_threads=False)
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
