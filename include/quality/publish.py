"""Puts Data Docs where people read them: a folder, or a bucket of an S3-compatible store.

Great Expectations had a store for S3 and dropped it. The site is files, and boto3 uploads files. boto3 itself finds
credentials, region and endpoint (`AWS_PROFILE`, `AWS_ENDPOINT_URL_S3` ...).
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.quality.data_docs import INDEX, OWN_FOLDERS, build
from include.scratch import scratch_folder
from include.settings import Settings

NEWEST = 100  # judgements of each pipeline, unless told otherwise
S3 = "s3://"
_DELETED_AT_ONCE = 1000  # S3's limit
_PROGRESS_EVERY = 200  # files
Say = Callable[[str], None]


def publish(settings: Settings, pipelines: Iterable[Pipeline], to: str, newest: int, say: Say) -> str:
    """Builds Data Docs, replaces what was there, and returns the index's path or address.

    Args:
        to: a folder, or `s3://BUCKET/PREFIX`. newest: how many judgements of each pipeline, the newest ones.

    Raises:
        TerminalError: the store refuses (no such bucket, wrong credentials ...). RetryableError: it cannot be reached.
        TableDamaged: see `open_table`.
    """
    if not to.startswith(S3):
        return str(build(settings, pipelines, Path(to), newest))
    place = re.fullmatch(r"s3://([^/]+)/?(.*?)/?", to)
    if place is None:
        raise _refused(to, "s3://BUCKET/PREFIX", to)
    with scratch_folder() as scratch:
        site = build(settings, pipelines, scratch / "site", newest).parent
        prefix = f"{place[2]}/" if place[2] else ""
        return _upload(site, place[1], prefix, say)


def _upload(site: Path, bucket: str, prefix: str, say: Say) -> str:
    """Uploads a site, the index last: a reader finds every page that it links. Then removes the old pages."""
    import boto3  # takes half a second, which writing to a folder can do without
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        s3 = boto3.Session().client("s3")
        before = set(_keys(s3, bucket, [f"{prefix}{folder}/" for folder in OWN_FOLDERS]))
        files = sorted((file for file in site.rglob("*") if file.is_file()), key=lambda file: file == site / INDEX)
        keys = [f"{prefix}{file.relative_to(site).as_posix()}" for file in files]
        for number, (file, key) in enumerate(zip(files, keys, strict=True), 1):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            s3.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), ContentType=f"{kind}; charset=utf-8")
            if number % _PROGRESS_EVERY == 0:
                say(f"{number:,} of {len(files):,} pages uploaded")
        gone = sorted(before - set(keys))
        for start in range(0, len(gone), _DELETED_AT_ONCE):
            some = [{"Key": key} for key in gone[start : start + _DELETED_AT_ONCE]]
            s3.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
    except (ClientError, BotoCoreError) as error:
        raise _classed(error, f"{S3}{bucket}/{prefix}") from error
    say(f"{len(files):,} pages uploaded, {len(gone):,} old ones removed")
    return f"{S3}{bucket}/{prefix}{INDEX}"


def _keys(s3: Any, bucket: str, prefixes: Iterable[str]) -> Iterator[str]:
    for prefix in prefixes:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            yield from (found["Key"] for found in page.get("Contents", ()))


def _classed(error: Exception, where: str) -> LakemarkError:
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

    status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0) if isinstance(error, ClientError) else 0
    if status >= 500 or isinstance(error, HTTPClientError | ConnectionError):
        return RetryableError(
            what="the store of Data Docs cannot be reached",
            where=where,
            expected="an answer",
            found=str(error),
            action="check that it is up and that AWS_ENDPOINT_URL_S3, if set, is its address; nothing else is changed",
        )
    return _refused(where, "an existing bucket, and credentials that may list, write and delete in it", str(error))


def _refused(where: str, expected: str, found: str) -> TerminalError:
    action = "fix LAKEMARK_DATA_DOCS (or --to), or boto3's settings: AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_REGION ..."
    return TerminalError(
        what="Data Docs cannot be uploaded", where=where, expected=expected, found=found, action=action
    )
