"""Packs the job's code into one file for a cluster, named by its version and its content."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution

from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.settings import PROJECT_ROOT, Settings

PACKAGES = ("include", "spark_jobs")
_ENTRY_CODE = """\
# The main file of Lakemark's job on a cluster; the code is in the zip beside it.
import sys

from spark_jobs.merge_job import main

sys.exit(main())
"""


def build_artifact(settings: Settings) -> tuple[LakeUri, LakeUri]:
    """The zip of the code (for `--py-files`) and the main file, in the lake. Both are made unless they exist.

    Their names end in a hash of the content. So the same code gives the same files, and other code never replaces a
    file that a job still reads.
    """
    files = dict(_files())
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    folder = settings.lake / "_lakemark/artifacts"
    artifact = folder / f"lakemark-{settings.code_version}-{digest.hexdigest()[:12]}.zip"
    entry = folder / f"lakemark_job-{hashlib.sha256(_ENTRY_CODE.encode()).hexdigest()[:12]}.py"
    in_lake = files_at(folder)
    in_lake.make_folder(folder)
    if not in_lake.exists(artifact):
        in_lake.publish(artifact, _zip(files))
    if not in_lake.exists(entry):
        in_lake.publish(entry, _ENTRY_CODE.encode())
    return artifact, entry


def _zip(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a time: the same code gives the same bytes
    return made.getvalue()


def _files() -> Iterator[tuple[str, bytes]]:
    """The code, and the metadata that tells it its own version."""
    for package in PACKAGES:
        for path in sorted((PROJECT_ROOT / package).rglob("*.py")):
            yield str(path.relative_to(PROJECT_ROOT)), path.read_bytes()
    metadata = distribution("lakemark")
    yield f"lakemark-{metadata.version}.dist-info/METADATA", (metadata.read_text("METADATA") or "").encode()
