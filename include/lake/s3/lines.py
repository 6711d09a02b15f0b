"""Lines on an S3-compatible store, which cannot append: every line is an object."""

from __future__ import annotations

from include.lake.s3.connection import client
from include.lake.s3.errors import answering
from include.lake.s3.object_file import whole
from include.lake.s3.objects import Place, deleted, listed
from include.lake.uri import LakeUri


class S3Lines:
    """See `Lines`."""

    def __init__(self, uri: LakeUri) -> None:
        self._place = Place.of(uri)
        self._written, self._read = 0, ""

    def add(self, line: str) -> None:
        self._written += 1
        key = f"{self._place.below}{self._written:09}"  # sorts as the lines came
        with answering(str(self._place)):
            client().put_object(Bucket=self._place.bucket, Key=key, Body=line.encode())

    def new(self) -> list[str]:
        keys = [found.key for found in listed(self._place, after=self._read)]
        lines = [whole(Place(self._place.bucket, key))[0].decode(errors="replace") for key in keys]
        self._read = keys[-1].removeprefix(self._place.below) if keys else self._read
        return lines

    def remove(self) -> None:
        deleted(self._place.bucket, [found.key for found in listed(self._place)])
