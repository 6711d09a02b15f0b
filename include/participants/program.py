"""The program of a pipeline: a digest of everything beside the records that decides what a batch writes."""

from __future__ import annotations

import hashlib
import json

from include.pipeline_file import Pipeline
from include.pipeline_file.transform_file import read_transform
from include.settings import Settings

# Where records come from, and how fast, decides nothing about rows. Logins stay out of digests.
_OF_READING = {"bootstrap_servers", "security", "topics", "topics_pattern", "registry", "limits", "start"}


def program_of(settings: Settings, pipeline: Pipeline, suite: str | None) -> str:
    """The digest, in hex. Attempts with the same program make the same rows of the same records.

    Args:
        suite: fingerprint of the quality suite; None: there is none.
    """
    transform = None
    if pipeline.transform is not None:
        transform = read_transform(settings, pipeline)
    parts = {
        "source": pipeline.source.model_dump(mode="json", exclude=_OF_READING),
        "change": pipeline.change.model_dump(mode="json"),
        "target": pipeline.target.model_dump(mode="json"),
        "quality": pipeline.quality.model_dump(mode="json", include={"on_fail"}),
        "transform": pipeline.transform and pipeline.transform.model_dump(mode="json"),
        "transform_text": transform,
        "suite": suite,
        "code": settings.code_version,
    }
    return digest_of(json.dumps(parts, sort_keys=True))


def digest_of(*parts: str | None) -> str:
    """One digest of several texts: 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
