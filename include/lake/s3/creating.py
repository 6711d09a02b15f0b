"""Creates an object, unless there is one: the step by which a store decides between two writers.

An answer may get lost after the store has done what was asked. So every write has an id of its own in the object's
metadata. The content cannot tell two writers apart: they may write equal bytes.
"""

from __future__ import annotations

import time
import uuid

from include.lake.s3.connection import client
from include.lake.s3.errors import answering, status_of

WRITE_ID = "lakemark-write"  # x-amz-meta-lakemark-write; `S3LogStore.java` writes it, too
_SECONDS = 60.0  # until it gives up
_PAUSE, _PAUSE_MAX = 0.1, 2.0  # seconds
_IS_THERE, _IN_FLIGHT, _TOO_MANY = 412, 409, 429


def created(bucket: str, key: str, content: bytes) -> bool:
    """Creates an object, whole or not at all. False if another writer's is there.

    A request without a clear answer may still be on its way, so that the object is not there *yet*. It is sent again
    with the same id: one of both lands, and which one does not matter.

    Raises:
        OSError: the object may be there or not.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    mine, until, pause = str(uuid.uuid4()), time.monotonic() + _SECONDS, _PAUSE
    put = client(once=True).put_object
    with answering(f"s3://{bucket}/{key}"):
        while True:
            try:
                put(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*", Metadata={WRITE_ID: mine})
                return True
            except ClientError as error:
                if status_of(error) == _IS_THERE:
                    return write_id(bucket, key) == mine
                is_unclear = status_of(error) >= 500 or status_of(error) in (_IN_FLIGHT, _TOO_MANY)
                if not is_unclear or time.monotonic() > until:
                    raise
            except BotoCoreError:
                if time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)


def write_id(bucket: str, key: str) -> str | None:
    """The id of the write that made an object; None if its writer gave none.

    Raises:
        OSError: see `answering`.
    """
    with answering(f"s3://{bucket}/{key}"):
        found: dict[str, str] = client().head_object(Bucket=bucket, Key=key)["Metadata"]
    return found.get(WRITE_ID)
