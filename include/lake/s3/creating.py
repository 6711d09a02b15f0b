"""Creates an object, unless there is one: the step by which a store decides between two writers.

An answer may get lost after the store has done what was asked. So every write has an id of its own in the object's
metadata. The content cannot tell two writers apart: they may write equal bytes.
"""

from __future__ import annotations

import time
import uuid

from include.lake.s3.connection import client
from include.lake.s3.errors import answering, is_for_later, may_have_landed, status_of
from include.lake.s3.objects import Place, tag_of
from include.protocol.errors import StoreUnclear

WRITE_ID = "lakemark-write"  # x-amz-meta-lakemark-write; `S3LogStore.java` writes it, too
_SECONDS = 60.0  # until it gives up
_PAUSE, _PAUSE_MAX = 0.1, 2.0  # seconds
_IS_THERE = 412


def created(place: Place, content: bytes) -> str | None:
    """Creates an object, whole or not at all, and returns its tag. None if another writer's is there.

    A request without a clear answer may still be on its way, so that the object is not there *yet*. It is sent again
    with the same id: one of both lands, and which one does not matter.

    Raises:
        StoreUnclear: the object may be there or not. StoreRefuses, StoreAway: it is not, and will not be.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    mine = str(uuid.uuid4())
    until, pause, is_unclear = time.monotonic() + _SECONDS, _PAUSE, False
    with answering(str(place)):
        put = client(once=True).put_object
        while True:
            try:
                answer = put(
                    Bucket=place.bucket, Key=place.key, Body=content, IfNoneMatch="*", Metadata={WRITE_ID: mine}
                )
                return tag_of(answer)
            except (ClientError, BotoCoreError) as error:
                is_there = isinstance(error, ClientError) and status_of(error) == _IS_THERE
                if is_there and (theirs := _writer(place)) is not None:
                    return theirs[1] if theirs[0] == mine else None
                is_unclear = is_unclear or is_there or may_have_landed(error)
                if not (is_there or is_for_later(error)) or time.monotonic() > until:
                    if is_unclear:
                        raise _unclear(place, error) from error
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)


def _writer(place: Place) -> tuple[str | None, str] | None:
    """The id of the write that made an object, if its writer gave one, and its tag; None if it is not there (any
    more)."""
    try:
        found = place.head()
        return found["Metadata"].get(WRITE_ID), tag_of(found)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unclear(place, error) from error


def write_id(place: Place) -> str | None:
    """The id of the write that made an object; None if its writer gave none.

    Raises:
        OSError: see `answering`.
    """
    found: dict[str, str] = place.head()["Metadata"]
    return found.get(WRITE_ID)


def _unclear(place: Place, error: Exception) -> StoreUnclear:
    return StoreUnclear(
        what="the lake's store gave no clear answer to a write",
        where=str(place),
        expected=f"that it is there, or that it is not, within {_SECONDS:.0f} s",
        found=f"{type(error).__name__}: {error}"[:500],
        action="nothing by hand: the next attempt settles it from the table's log first",
    )
