"""The objects of an S3-compatible store, one request or listing each. Every method raises OSError: see `answering`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from include.lake.s3.connection import client
from include.lake.s3.errors import answering
from include.lake.uri import LakeUri
from include.protocol.errors import StoreAway

_DELETED_AT_ONCE = 1000  # the protocol's limit
_WHOLE_TRIES, _WHOLE_PAUSE = 20, 0.1  # seconds


def tag_of(answer: Mapping[str, Any]) -> str:  # Any: boto3's answer
    """An object's tag, as an answer of the store tells it; empty: it does not tell it now."""
    return str(answer.get("ETag", "")).strip('"')


@dataclass(frozen=True)
class Place:
    """Where an object lies, or those below a prefix."""

    bucket: str
    key: str

    @classmethod
    def of(cls, uri: LakeUri) -> Place:
        parts = urlsplit(uri.text, allow_fragments=False)
        assert parts.scheme == "s3", f"{uri} lies in no S3-compatible store"
        return cls(parts.netloc, uri.text.partition("://")[2].partition("/")[2].strip("/"))

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def below(self) -> str:
        """What the keys of all objects below it begin with."""
        return f"{self.key}/" if self.key else ""

    def head(self) -> dict[str, Any]:  # Any: boto3's answer
        """What the store says about the object, with its tag. s3proxy may show an object for a moment without tag and
        metadata, and then one's own commit would look like another writer's."""
        for tries_left in reversed(range(_WHOLE_TRIES)):
            with answering(str(self)):
                found: dict[str, Any] = client().head_object(Bucket=self.bucket, Key=self.key)
            if "ETag" in found:
                break
            if not tries_left:
                raise StoreAway(
                    what="the lake's store tells half of what it knows of an object",
                    where=str(self),
                    expected="an answer with the object's tag (ETag)",
                    found=f"one without it, {_WHOLE_TRIES} times",
                    action="nothing by hand: it is asked again; if it persists, use another store",
                )
            time.sleep(_WHOLE_PAUSE)
        return found


@dataclass(frozen=True)
class Found:
    """An object of a listing."""

    key: str
    size: int  # bytes
    changed: datetime
    tag: str  # empty: the store does not tell it now


def listed(place: Place, after: str = "", at_most: int | None = None) -> Iterator[Found]:
    """The objects below a place, in the order of their keys. Args: after: a name below it: only those behind it."""
    more = {"StartAfter": place.below + after} if after else {}
    if at_most is not None:
        more["PaginationConfig"] = {"MaxItems": at_most, "PageSize": min(at_most, 1000)}  # type: ignore[assignment]
    with answering(str(place)):
        for page in client().get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.below, **more):
            for found in page.get("Contents", ()):
                yield Found(found["Key"], found["Size"], found["LastModified"], tag_of(found))


def folders_in(place: Place) -> list[str]:
    """The names between a place and the next slash, in order."""
    found: list[str] = []
    with answering(str(place)):
        pages = (
            client().get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.below, Delimiter="/")
        )
        for page in pages:
            found += (one["Prefix"].removeprefix(place.below).rstrip("/") for one in page.get("CommonPrefixes", ()))
    return found


def aborted(place: Place, before: datetime) -> int:
    """Ends the multipart uploads below a place that began before that moment and have not ended: nobody sees their
    parts, and they cost. Returns how many."""
    count = 0
    with answering(str(place)):
        for page in client().get_paginator("list_multipart_uploads").paginate(Bucket=place.bucket, Prefix=place.below):
            for found in page.get("Uploads", ()):
                if found["Initiated"] < before:
                    key, upload = found["Key"], found["UploadId"]
                    client().abort_multipart_upload(Bucket=place.bucket, Key=key, UploadId=upload)
                    count += 1
    return count


def deleted(bucket: str, keys: Iterable[str]) -> int:
    """Deletes objects, and returns how many."""
    waiting, count = list(keys), 0
    with answering(f"s3://{bucket}"):
        for start in range(0, len(waiting), _DELETED_AT_ONCE):
            some = [{"Key": key} for key in waiting[start : start + _DELETED_AT_ONCE]]
            answer = client().delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
            for refused in answer.get("Errors", ()):
                raise OSError(f"s3://{bucket}/{refused['Key']}: {refused.get('Code')}: {refused.get('Message')}")
            count += len(some)
    return count
