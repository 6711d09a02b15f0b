"""Folders of the lake that every machine of a cluster reaches, and where processes append to each other's files.

Only a POSIX file system has such folders; an object store appends to nothing.
"""

from __future__ import annotations

from pathlib import Path

from include.lake.posix import posix_path
from include.lake.uri import LakeUri


def shared_folder(lake: LakeUri, name: str) -> Path:
    """A folder of Lakemark's own in the lake, made if there is none."""
    folder = posix_path(lake / "_lakemark" / name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
