"""Unpacks archives of tests."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Puts all of an archive into a folder. It is our own, or pinned by a hash: Python before 3.11.4, which Debian 12
    has, cannot look at what is in it."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
