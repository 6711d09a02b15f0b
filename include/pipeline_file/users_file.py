"""Reads a file that a user wrote: a pipeline file, a transform, a suite, the file of alerts.

Whoever may write into such a folder may put anything there. A FIFO or a device would make its reader wait for ever, a
link could show files of the machine to people who may only see the pipeline, and a large file would cost every reader
of the folder.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

SIZE_MAX = 1_000_000
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRead(ValueError):
    """The file is none that Lakemark reads.

    Args:
        allowed, found: for people.
    """

    def __init__(self, allowed: str, found: str) -> None:
        super().__init__(f"expected {allowed}; found {found}")
        self.allowed, self.found = allowed, found


def read_users_file(path: Path, folder: Path) -> str:
    """The text of a file.

    Args:
        folder: where the file must lie. Links within it are followed: Kubernetes mounts a ConfigMap as links.

    Raises:
        FileNotFoundError: there is no such file, or a link leads nowhere.
        NotRead: it is not a regular file of at most `SIZE_MAX` bytes of UTF-8 in that folder.
    """
    try:
        data = _read(path, folder)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:  # a RuntimeError: before Python 3.13, a link that leads to itself
        raise NotRead("a file that can be read", getattr(error, "strerror", None) or "a link to itself") from error
    if len(data) > SIZE_MAX:
        raise NotRead(f"at most {SIZE_MAX:,} bytes", "more")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotRead("text in UTF-8", f"a byte that is none, at position {error.start}") from error


def _read(path: Path, folder: Path) -> bytes:
    real = path.resolve(strict=True)
    if folder.resolve() not in real.parents:
        raise NotRead(f"a file in {folder}", "a link that leads out of it")
    _verify_regular(real.lstat())
    # What lies there may change in between. So the file that was opened is looked at once more.
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        _verify_regular(os.fstat(descriptor))
        return file.read(SIZE_MAX + 1)


def _verify_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotRead("a regular file", _KINDS.get(stat.S_IFMT(found.st_mode), "something else"))
