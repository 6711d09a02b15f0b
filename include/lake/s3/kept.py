"""What this process has read of objects whose content belongs to their tag: commits and checkpoints of logs. It spares
requests, never a look: a listing tells the tags first."""

from __future__ import annotations

from threading import Lock

from cachetools import LRUCache

from include.lake.s3.object_file import whole
from include.lake.s3.objects import Place

_BYTES_MAX, _ONE_MAX = 64 << 20, 8 << 20
_contents: LRUCache[tuple[Place, str], bytes] = LRUCache(_BYTES_MAX, getsizeof=len)
_lock = Lock()


def content_of(place: Place, tag: str) -> bytes:
    """The content of an object. Args: tag: as a listing told it a moment ago; empty: not known.

    Raises:
        OSError: see `whole`. FileNotFoundError, too, if another object is in its place now.
    """
    with _lock:
        found = _contents.get((place, tag)) if tag else None
    if found is not None:
        return found
    content, now = whole(place)
    if tag and now and now != tag:
        raise FileNotFoundError(f"{place}: another object is in its place")
    keep(place, now, content)
    return content


def keep(place: Place, tag: str, content: bytes) -> None:
    """Keeps what an object with this tag holds."""
    if tag and len(content) <= _ONE_MAX:
        with _lock:
            _contents[place, tag] = content
