"""Folders of the lake that every machine of a cluster can reach, and where processes append to files.

Only a POSIX file system has such folders: an object store cannot append.
"""

from __future__ import annotations

from pathlib import Path

from include.lake.posix import posix_path
from include.lake.uri import LakeUri


def shared_folder(lake: LakeUri, name: str) -> Path:
    """A folder of Lakemark's own in the lake. It is made if there is none."""
    folder = posix_path(lake / "_lakemark" / name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
