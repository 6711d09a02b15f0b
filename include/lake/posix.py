"""The lake on a POSIX file system: a local disk, or a file system that many machines mount."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TextIO

from include.lake.files import FileInfo
from include.lake.log_store import LOG, CheckpointHint, Commit, Tail, checkpoint_file, commit_file
from include.lake.uri import LakeUri

if TYPE_CHECKING:
    import pyarrow as pa


_CHUNK = 8 << 20  # bytes
_WITHOUT_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)  # another file system, or one without them


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
        return _published(Path(self._folder, commit_file(version)), content)

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
        return sum(1 for _ in os.scandir(self._folder))


class PosixFiles:
    """Files and folders of a POSIX file system."""

    def exists(self, uri: LakeUri) -> bool:
        return posix_path(uri).exists()

    def list(self, folder: LakeUri) -> Iterator[FileInfo]:
        root = posix_path(folder)
        for path, _, names in os.walk(root):
            for name in names:
                file = Path(path, name)
                try:
                    found = file.stat()
                except FileNotFoundError:  # another process removed it after this one had listed the folder
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield FileInfo(str(file.relative_to(root)), found.st_size, found.st_mtime)

    def folders(self, folder: LakeUri) -> Sequence[str]:
        try:
            return sorted(entry.name for entry in os.scandir(posix_path(folder)) if entry.is_dir())
        except FileNotFoundError:
            return []

    def open(self, file: LakeUri, lasting_size: int | None = None) -> BinaryIO:
        return posix_path(file).open("rb")

    def create(self, file: LakeUri, content: bytes) -> None:
        path = posix_path(file)
        with path.open("xb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def publish(self, file: LakeUri, content: bytes) -> bool:
        return _published(posix_path(file), content)

    def write(self, file: LakeUri, content: BinaryIO) -> None:
        path = posix_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = _scratch(path)
        try:
            with scratch.open("xb") as new:
                shutil.copyfileobj(content, new, _CHUNK)
                new.flush()
                os.fsync(new.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)

    def link(self, file: LakeUri, to: LakeUri) -> None:
        path, new = posix_path(file), posix_path(to)
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, new)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            with path.open("rb") as content:
                self.write(to, content)
        with suppress(PermissionError):  # another user's file
            os.utime(new)

    def make_folder(self, folder: LakeUri) -> None:
        posix_path(folder).mkdir(parents=True, exist_ok=True)

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        posix_path(folder).rename(posix_path(to))

    def remove(self, file: LakeUri) -> None:
        posix_path(file).unlink(missing_ok=True)

    def delete(self, folder: LakeUri) -> None:
        shutil.rmtree(posix_path(folder))

    def forget_unfinished(self, folder: LakeUri, older_than_hours: float) -> int:
        return 0  # what was begun is a file

    def keeps_versions(self, folder: LakeUri) -> bool:
        return False

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        root = posix_path(folder).resolve()
        above = (parent for parent in root.parents if (parent / LOG).is_dir())
        yield from (LakeUri(str(path)) for path in chain(above, _tables_below(root)))


class PosixLines:
    """See `Lines`: one file."""

    def __init__(self, uri: LakeUri) -> None:
        self._path, self._read = posix_path(uri), 0
        self._file: TextIO | None = None

    def add(self, line: str) -> None:
        if self._file is None:
            self._file = self._path.open("a")
        print(line, file=self._file, flush=True)

    def new(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        whole = new[: new.rfind(b"\n") + 1]  # the last one may be on its way
        self._read += len(whole)
        return whole.decode(errors="replace").split("\n")[:-1]

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def posix_path(uri: LakeUri) -> Path:
    """The path of a URI of this kind."""
    assert uri.scheme == "file", f"{uri} lies in no POSIX file system"
    return Path(uri.text.removeprefix("file://"))


def _published(path: Path, content: bytes) -> bool:
    """Gives a file its name when it is whole, by a hard link. False if there is one."""
    scratch = _scratch(path)
    try:
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    return True


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")


def _tables_below(folder: Path) -> Iterator[Path]:
    for root, folders, _ in os.walk(folder):
        if LOG in folders:
            folders.remove(LOG)
            if Path(root) != folder:
                yield Path(root)
