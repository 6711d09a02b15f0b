"""The place that a URI names on a POSIX file system."""

from __future__ import annotations

from pathlib import Path

from include.lake.uri import LakeUri


def posix_path(uri: LakeUri) -> Path:
    """The path of a URI of this kind."""
    assert uri.scheme == "file", f"{uri} lies in no POSIX file system"
    return Path(uri.text.removeprefix("file://"))
