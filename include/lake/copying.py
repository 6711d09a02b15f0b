"""Copies a file from one store to another, and reads it again there."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, cast

from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError

_TRIES = 3  # of a file that changes, or that does not arrive as it was
_CHUNK = 8 << 20  # bytes


def copy_file(old: LakeUri, new: LakeUri) -> None:
    """Copies a file, unless it is there.

    Raises:
        RetryableError: it did not arrive as it was, or changed all the time. FileNotFoundError: it is gone. OSError: a
            store does not answer.
    """
    for _ in range(_TRIES):
        there = _hash_of(new)
        if there is not None and there == _hash_of(old):
            return
        with files_at(old).open(old) as content:
            read = _Hashed(content)
            files_at(new).write(new, cast(BinaryIO, read))
        if _hash_of(new) == read.hash.hexdigest():
            return
    raise RetryableError(
        what="a file did not arrive as it was",
        where=str(new),
        expected=f"the content of {old}",
        found=f"another content, {_TRIES} times",
        action="run the same command again; if it persists, look at the network and at the store",
    )


class _Hashed:
    """Reads a file, and knows what it has read."""

    def __init__(self, content: BinaryIO) -> None:
        self._content, self.hash = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        found = self._content.read(size)
        self.hash.update(found)
        return found


def _hash_of(file: LakeUri) -> str | None:
    try:
        with files_at(file).open(file) as content:
            read = _Hashed(content)
            while read.read(_CHUNK):
                pass
    except FileNotFoundError:
        return None
    return read.hash.hexdigest()
