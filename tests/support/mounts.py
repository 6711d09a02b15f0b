"""Other file systems and other users in a test; what this machine does not allow is skipped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import NOT_ALLOWED

NOBODY = 65534  # the user's id on every Linux


@contextmanager
def mounted(folder: str, *mount: str) -> Iterator[None]:
    """`folder`, with what it holds, as another file system for a while."""
    done = subprocess.run(["mount", *mount, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{NOT_ALLOWED} mount: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that others find. It lies outside pytest's: each pytest that starts closes those, at any moment."""
    with tempfile.TemporaryDirectory(prefix="lakemark-open-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@contextmanager
def another_user() -> Iterator[None]:
    """Does what follows as a user without rights."""
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_ALLOWED} become another user")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
