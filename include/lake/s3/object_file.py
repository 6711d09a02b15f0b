"""An object of an S3-compatible store as a file that is read from any position."""

from __future__ import annotations

import io
import re
import time
from threading import Lock

from cachetools import LRUCache, cached

from include.lake.s3.connection import TRIES, client
from include.lake.s3.errors import answering, status_of
from include.lake.s3.objects import Place, tag_of

_TAIL = 1 << 18  # bytes: a Parquet file is read from its end, and many files of a lake are no longer than this
_BLOCK, _BLOCKS_BYTES = 2 << 20, 64 << 20  # of one; of all that a process keeps
_NO_SUCH_RANGE = 416
_SECONDS = 60.0  # after which a body that was cut is not read again
_WHOLE = 8 << 20  # bytes: up to this size one request for all of it is sooner done than several


def opened(place: Place) -> io.BufferedIOBase:
    """Opens an object.

    Raises:
        OSError: see `answering`. Reading raises it, too, if the object was replaced meanwhile.
    """
    tail, size, tag = _part(place, f"bytes=-{_TAIL}")
    if size <= len(tail):
        return io.BytesIO(tail)
    if size <= _WHOLE:
        head, *_ = _part(place, f"bytes=0-{size - len(tail) - 1}", tag)
        return io.BytesIO(head + tail)
    return io.BufferedReader(_Ranges(place, size, tag=tag, tail=tail), _TAIL)


def whole(place: Place) -> tuple[bytes, str]:
    """All of an object by one request, and its tag (empty: the store does not tell it). OSError: see `answering`."""
    content, _, tag = _part(place, None)
    return content, tag


def opened_lasting(place: Place, size: int) -> io.BufferedIOBase:
    """Opens an object that never changes, without a request. What is read of it is kept for the next who opens it.
    Reading raises OSError: see `answering`."""
    return io.BufferedReader(_Blocks(place, size), _TAIL)


class _Seekable(io.RawIOBase):
    """What is read from any position."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def readall(self) -> bytes:
        """All of the rest. What `io` does by itself asks for 8 kB at a time."""
        rest = bytearray(max(0, self._size - self._at))
        done = 0
        while done < len(rest):
            done += self.readinto(memoryview(rest)[done:])
        return bytes(rest)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of bytes, as BufferedReader gives it
        """Reads on. Returns how many bytes, 0 at the end."""
        raise NotImplementedError


class _Blocks(_Seekable):
    """Reads an object that never changes by large blocks: many small ranges would be as many requests."""

    def __init__(self, place: Place, size: int) -> None:
        super().__init__(size)
        self._place = place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of bytes, as BufferedReader gives it
        if self._at >= self._size:
            return 0
        number, within = divmod(self._at, _BLOCK)
        first, end = number * _BLOCK, min((number + 1) * _BLOCK, self._size)
        found = _block(self._place, first, end)[within : within + len(buffer)]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


class _Ranges(_Seekable):
    """Reads an object by ranges."""

    def __init__(self, place: Place, size: int, tag: str, tail: bytes) -> None:
        super().__init__(size)
        self._place, self._tag, self._tail = place, tag, tail

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of bytes, as BufferedReader gives it
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        before_tail = self._size - len(self._tail)
        if self._at >= before_tail:
            found = self._tail[self._at - before_tail : end - before_tail]
        else:
            found, *_ = _part(self._place, f"bytes={self._at}-{end - 1}", self._tag)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


@cached(LRUCache(_BLOCKS_BYTES, getsizeof=len), lock=Lock())
def _block(place: Place, first: int, end: int) -> bytes:
    return _part(place, f"bytes={first}-{end - 1}")[0]


def _part(place: Place, range_: str | None, tag: str | None = None) -> tuple[bytes, int, str]:
    """A part of an object, or all of it, the object's size, and its tag. Args: tag: the object must have it."""
    from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

    same = ({"IfMatch": f'"{tag}"'} if tag else {}) | ({"Range": range_} if range_ else {})
    until = time.monotonic() + _SECONDS
    with answering(str(place)):
        for tries_left in reversed(range(TRIES)):
            try:
                answer = client().get_object(Bucket=place.bucket, Key=place.key, **same)  # which asks up to TRIES times
            except ClientError as error:
                if status_of(error) == _NO_SUCH_RANGE:  # the object is empty
                    return b"", 0, ""
                raise
            try:
                content = answer["Body"].read()
            except (IncompleteReadError, ResponseStreamingError, HTTPClientError):  # boto3 does not read a body again
                if not tries_left or time.monotonic() > until:
                    raise
                continue
            size = re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.get("ContentRange", ""))
            return content, int(size[1]) if size else len(content), tag_of(answer)
    raise AssertionError("the last try returns or raises")
