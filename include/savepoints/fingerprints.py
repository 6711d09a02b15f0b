"""Fingerprints of a savepoint's files: what tells later whether they are still what they were.

A Parquet file ends with its footer, which names every column and page; two files that differ have different ones. So a
few kilobytes tell quickly whether it is the same file. Only its whole content tells whether a disk has lost a bit.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from include.lake.stores import files_at
from include.lake.uri import LakeUri

_AT_ONCE = 16
_END = 16 << 10  # bytes
_CHUNK = 8 << 20
_TOLD_EVERY = 1_000  # files


@dataclass(frozen=True)
class Fingerprint:
    """One file."""

    size: int  # bytes
    end: str  # SHA-256 of its last bytes
    sha256: str | None = None  # of its content; None: nobody has read all of it

    def differs_from(self, other: Fingerprint) -> str | None:
        """What is another one; None: nothing that both know."""
        if self.size != other.size:
            return f"{other.size:,} bytes, and {self.size:,} were written"
        if self.end != other.end or (None not in (self.sha256, other.sha256) and self.sha256 != other.sha256):
            return "another content than was written"
        return None


def fingerprints(
    files: Mapping[str, LakeUri], deep: bool, say: Callable[[str], None] = lambda _: None
) -> dict[str, Fingerprint | None]:
    """The fingerprints of files, by the given names; None for one that is not there.

    Args:
        deep: reads all of each. say: is told now and then how far it is.

    Raises:
        OSError: the store does not answer.
    """
    found: dict[str, Fingerprint | None] = {}
    with ThreadPoolExecutor(_AT_ONCE) as several:
        for name, one in zip(files, several.map(lambda file: _fingerprint(file, deep), files.values()), strict=True):
            found[name] = one
            if len(found) % _TOLD_EVERY == 0:
                say(f"looked at {len(found):,} of {len(files):,} files")
    return found


def written(found: Mapping[str, Fingerprint]) -> bytes:
    """A list of files, as a savepoint keeps it."""
    return json.dumps({name: asdict(one) for name, one in sorted(found.items())}, indent=0).encode()


def read(content: bytes) -> dict[str, Fingerprint]:
    """The inverse of `written`. Raises ValueError, TypeError, AttributeError: it is no such list."""
    return {name: Fingerprint(**one) for name, one in json.loads(content).items()}


def _fingerprint(file: LakeUri, deep: bool) -> Fingerprint | None:
    try:
        with files_at(file).open(file) as content:
            whole = hashlib.sha256()
            while deep and (part := content.read(_CHUNK)):
                whole.update(part)
            size = content.seek(0, io.SEEK_END)
            content.seek(max(0, size - _END))
            return Fingerprint(size, hashlib.sha256(content.read()).hexdigest(), whole.hexdigest() if deep else None)
    except FileNotFoundError:
        return None
