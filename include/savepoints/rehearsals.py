"""What rehearsals of savepoints have found: each savepoint keeps how its last one went."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.json_data import JsonObject
from include.settings import Settings

_RECORD = "rehearsed.json"


@dataclass(frozen=True)
class Rehearsal:
    """How a rehearsal went."""

    savepoint: str
    at: str  # ISO 8601, UTC
    seconds: float
    problems: Sequence[str]
    code_version: str

    def to_json(self) -> JsonObject:
        return asdict(self)


def record(settings: Settings, pipeline: Pipeline, done: Rehearsal) -> None:
    """Keeps how a rehearsal went. Raises OSError: the store refuses."""
    file = _file(settings, pipeline, done.savepoint)
    files_at(file).write(file, io.BytesIO(json.dumps(done.to_json(), indent=2).encode()))


def rehearsed(settings: Settings, pipeline: Pipeline, name: str) -> Rehearsal | None:
    """How the last rehearsal of a savepoint went; None: there was none, or nobody can read it."""
    file = _file(settings, pipeline, name)
    with suppress(FileNotFoundError, ValueError, TypeError), files_at(file).open(file) as content:
        return Rehearsal(**json.loads(content.read()))
    return None


def _file(settings: Settings, pipeline: Pipeline, name: str) -> LakeUri:
    return Tables.of(settings, pipeline).savepoints / name / _RECORD
