"""What a policy of AWS allows, for the requests that a proxy sees: the actions of Amazon S3 by method and path."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


def policy_of_docs(docs: Path, bucket: str, prefix: str) -> dict:
    """The policy in a page, for a bucket and a prefix."""
    found = re.search(r"```json\n(.*?)\n```", docs.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("BUCKET", bucket).replace("PREFIX", prefix))


def actions(method: str, target: str, body: bytes, copied: str | None) -> list[tuple[str, str]]:
    """What a request needs: actions, each with the resource. (Service Authorization Reference, "Actions, resources, and
    condition keys for Amazon S3".) Args: copied: BUCKET/KEY that it copies."""
    parts = urlsplit(target)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    asked = parse_qs(parts.query, keep_blank_values=True)
    of_bucket, of_object = f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{key}"
    if not key:
        match method:
            case "GET" if "uploads" in asked:
                return [("s3:ListBucketMultipartUploads", of_bucket)]
            case "GET" if "versioning" in asked:
                return [("s3:GetBucketVersioning", of_bucket)]
            case "GET" | "HEAD":
                return [("s3:ListBucket", of_bucket)]
            case "POST" if "delete" in asked:
                keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
                return [("s3:DeleteObject", f"{of_bucket}/{unescape(key)}") for key in keys]
            case _:
                return [(f"s3:{method} of a bucket", of_bucket)]
    match method:
        case "GET" | "HEAD":
            return [("s3:GetObject", of_object)]
        case "PUT" | "POST":
            source = [("s3:GetObject", f"arn:aws:s3:::{unquote(copied).lstrip('/')}")] if copied else []
            return [("s3:PutObject", of_object), *source]
        case "DELETE" if "uploadId" in asked:
            return [("s3:AbortMultipartUpload", of_object)]
        case "DELETE":
            return [("s3:DeleteObject", of_object)]
        case _:
            return [(f"s3:{method}", of_object)]


def allows(policy: dict, action: str, resource: str) -> bool:
    """Whether a policy allows an action on a resource."""
    for statement in policy["Statement"]:
        resources = statement["Resource"]
        of_these = resources if isinstance(resources, list) else [resources]
        if action in statement["Action"] and any(fnmatchcase(resource, pattern) for pattern in of_these):
            return True
    return False
