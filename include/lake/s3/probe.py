"""Asks a store, by a race, whether it can decide between two writers. Some stores take a condition and ignore it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from include.lake.s3.connection import address, client
from include.lake.s3.creating import created, write_id
from include.lake.s3.errors import answering
from include.lake.s3.object_file import whole
from include.lake.s3.objects import Place, listed
from include.protocol.errors import StoreRefuses

_RACERS = 8


def verify_decides(folder: Place) -> None:
    """Checks that the store creates an object for one of many writers at once, says whose it is, and lists and removes
    it at once. It needs some twenty requests, and leaves nothing behind.

    Args:
        folder: where it may make an object.

    Raises:
        StoreRefuses: it does not, or the login may not do that. OSError: see `created`.
    """
    with _of_probe(folder) as place:
        won = _race(place)
        if len(won) != 1:
            _refuse(place, f"one of {_RACERS} writers that create an object at once", f"{len(won)} that were told so")
        if write_id(place) is None:
            _refuse(place, "the metadata that an object was made with (x-amz-meta-...)", "none")
        if whole(place)[0] != won[0]:
            _refuse(place, "the content of the writer that was told so", "another one's")
        if created(place, won[0]) is not None:
            _refuse(place, "that no object is created twice", "that it was")
        if not any(found.key == place.key for found in listed(folder)):
            _refuse(place, "a listing that has an object as soon as it is there", "one without it")
    if any(found.key == place.key for found in listed(folder)):
        _refuse(place, "a listing without an object as soon as it is removed", "one that has it")


@contextmanager
def _of_probe(folder: Place) -> Iterator[Place]:
    place = Place(folder.bucket, f"{folder.below}{uuid.uuid4().hex}")
    try:
        yield place
    finally:
        with answering(str(place)):
            client().delete_object(Bucket=place.bucket, Key=place.key)


def _race(place: Place) -> list[bytes]:
    """What those wrote who were told that they had created the object."""
    start = Barrier(_RACERS)

    def write(content: bytes) -> bool:
        start.wait()
        return created(place, content) is not None

    contents = [str(number).encode() for number in range(_RACERS)]
    with ThreadPoolExecutor(_RACERS) as writers:
        return [content for content, won in zip(contents, writers.map(write, contents), strict=True) if won]


def _refuse(place: Place, expected: str, found: str) -> None:
    raise StoreRefuses(
        what="a lake cannot be kept on this store: two writers could both succeed, or one could be misled",
        where=f"{address()}, {place}",
        expected=expected,
        found=found,
        action="use a store that keeps the condition `If-None-Match: *` (docs/object-store.md names those that were "
        "tried), or a lake on a shared file system",
    )
