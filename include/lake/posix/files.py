"""Files and folders of a POSIX file system: a local disk, or one that many machines mount."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from include.lake.files import FileInfo
from include.lake.log_store import LOG
from include.lake.posix.errors import answering
from include.lake.posix.path import posix_path
from include.lake.posix.publishing import published, scratch_of
from include.lake.uri import LakeUri

_CHUNK = 8 << 20  # bytes
_WITHOUT_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)  # another file system, or one without them


class PosixFiles:
    """Files and folders of a POSIX file system."""

    def exists(self, uri: LakeUri) -> bool:
        with answering(uri):
            return posix_path(uri).exists()

    def list(self, folder: LakeUri) -> Iterator[FileInfo]:
        root = posix_path(folder)
        with answering(folder):
            for path, _, names in os.walk(root, onerror=_unless_gone):
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
            with answering(folder):
                return sorted(entry.name for entry in os.scandir(posix_path(folder)) if entry.is_dir())
        except FileNotFoundError:
            return []

    def open(self, file: LakeUri, lasting_size: int | None = None) -> BinaryIO:
        with answering(file):
            return posix_path(file).open("rb")

    def create(self, file: LakeUri, content: bytes) -> None:
        path = posix_path(file)
        with answering(file):
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
        with answering(file):
            return published(posix_path(file), content)

    def write(self, file: LakeUri, content: BinaryIO) -> None:
        path = posix_path(file)
        with answering(file):
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = scratch_of(path)
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
        with answering(to):
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
        with answering(folder):
            posix_path(folder).mkdir(parents=True, exist_ok=True)

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        with answering(folder):
            posix_path(folder).rename(posix_path(to))

    def remove(self, file: LakeUri) -> None:
        with answering(file):
            posix_path(file).unlink(missing_ok=True)

    def delete(self, folder: LakeUri) -> None:
        with answering(folder):
            shutil.rmtree(posix_path(folder))

    def forget_unfinished(self, folder: LakeUri, older_than_hours: float) -> int:
        return 0  # what was begun is a file

    def keeps_versions(self, folder: LakeUri) -> bool:
        return False

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        root = posix_path(folder).resolve()
        above = (parent for parent in root.parents if (parent / LOG).is_dir())
        yield from (LakeUri(str(path)) for path in chain(above, _tables_below(root)))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _tables_below(folder: Path) -> Iterator[Path]:
    for root, folders, _ in os.walk(folder):
        if LOG in folders:
            folders.remove(LOG)
            if Path(root) != folder:
                yield Path(root)
