"""Packs the job's code into one file for a cluster, named by its version and its content."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from include.lake.shared_folder import shared_folder
from include.settings import PROJECT_ROOT, Settings

PACKAGES = ("include", "spark_jobs")
ENTRY = "lakemark_job.py"
_ENTRY_CODE = """\
# The main file of Lakemark's job on a cluster; the code is in the zip beside it.
import sys

from spark_jobs.merge_job import main

sys.exit(main())
"""


def build_artifact(settings: Settings) -> tuple[Path, Path]:
    """The zip of the code (for `--py-files`) and the main file. Both are made unless they exist.

    The zip's name ends in a hash of its content. So the same code gives the same file, and other code never replaces a
    file that a job still reads.
    """
    files = dict(_files())
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    folder = shared_folder(settings.lake, "artifacts")
    artifact = folder / f"lakemark-{settings.code_version}-{digest.hexdigest()[:12]}.zip"
    entry = folder / ENTRY
    if not artifact.exists():
        scratch = artifact.with_suffix(f".{os.getpid()}.tmp")
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content)  # without a time: the same code gives the same bytes
        scratch.replace(artifact)
    if not entry.exists() or entry.read_text() != _ENTRY_CODE:
        scratch = entry.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text(_ENTRY_CODE)
        scratch.replace(entry)
    return artifact, entry


def _files() -> Iterator[tuple[str, bytes]]:
    """The code, and the metadata that tells it its own version."""
    for package in PACKAGES:
        for path in sorted((PROJECT_ROOT / package).rglob("*.py")):
            yield str(path.relative_to(PROJECT_ROOT)), path.read_bytes()
    metadata = distribution("lakemark")
    yield f"lakemark-{metadata.version}.dist-info/METADATA", (metadata.read_text("METADATA") or "").encode()
