"""Folders for temporary files. Nothing of them stays, also if the process that made one is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "lakemark-scratch-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that no other user may enter. It is gone at the end. If this process is killed before, the next one
    of this user that makes such a folder removes it.

    Raises:
        OSError: there is no place, or no space, for temporary files.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_if_left(left)
    folder, lock = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made() -> tuple[Path, int]:
    """A new folder, and the file descriptor that holds its lock. The kernel lets go of it when the process ends, and
    when its children have: a child that outlives it may still write there."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process took it for one that was left, as it was not locked yet
            continue
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists():
                return folder, lock
        os.close(lock)  # as above, a moment later


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):  # of another user, held, or gone meanwhile
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
