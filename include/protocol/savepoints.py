"""Savepoints: checkpoints with a name, which stay until somebody drops them. Pure.

A savepoint is a folder: what was decided (`begun.json`), one table for each of the pipeline's, the pipeline's own files
as they were, and the manifest, which comes last and makes it a savepoint. Model: Flink's savepoints.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from include.protocol.checkpoints import Checkpoint
from include.protocol.errors import TerminalError
from include.protocol.first_offsets import FirstOffsets
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import SAVEPOINT
from include.protocol.participants import Position
from include.protocol.sinks import Sinks, sinks_from_json, sinks_to_json

BEGUN, MANIFEST, TABLES, LISTS, TEXTS = "begun.json", "manifest.json", "tables", "files", "pipeline"
FORM = 1
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"


@dataclass(frozen=True)
class Begun:
    """What was decided before the first file of a savepoint was written. Whoever makes it again goes on with that."""

    pipeline: str
    name: str
    reason: str
    created_by: str
    created_at: str  # ISO 8601, UTC
    is_copy: bool  # it has data files of its own; else it pins those of the tables
    checkpoint: Checkpoint
    code_version: str
    form: int = FORM
    is_deep: bool = False  # its list of files has the hash of each
    first: FirstOffsets | None = None  # where reading began; None: an older Lakemark did not keep it
    sinks: Sinks = field(default_factory=dict)  # what each had got then, as far as the ledger knew

    @property
    def origin(self) -> str:
        """How the generation begins that goes back to it."""
        return f"{SAVEPOINT}{self.name} {self.checkpoint.name}"

    def to_json(self) -> JsonObject:
        said = {name: value for name, value in asdict(self).items() if name not in ("is_deep", "first", "sinks")}
        later = {  # than the first form
            "is_deep": self.is_deep or None,
            "first": self.first and self.first.to_json(),
            "sinks": sinks_to_json(self.sinks) if self.sinks else None,
        }
        there = {name: value for name, value in later.items() if value is not None}
        return {**said, "checkpoint": self.checkpoint.to_json(), **there}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        first = data.get("first")
        made = {
            "checkpoint": Checkpoint.from_json(data["checkpoint"]),
            "first": first and FirstOffsets.from_json(first),
            "sinks": sinks_from_json(data.get("sinks", {})),
        }
        return cls(**{**data, **made})


@dataclass(frozen=True)
class SavedTable:
    """One table of a savepoint."""

    position: Position  # where it stood
    folder: str | None  # its name among the savepoint's tables; None: no batch had written it yet
    files: int = 0  # data files and files of deletion vectors
    bytes: int = 0
    rows: int | None = None  # None: its log does not say how many
    schema: str | None = None  # Delta's JSON
    log: str | None = None  # the SHA-256 of its one commit
    listed: str | None = None  # the SHA-256 of the list of its files

    def to_json(self) -> JsonObject:
        return {**asdict(self), "position": self.position.to_json()}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(**{**data, "position": Position.from_json(data["position"])})


@dataclass(frozen=True)
class Savepoint:
    """A savepoint as its manifest has it."""

    begun: Begun
    tables: Mapping[str, SavedTable]  # by the participant's name
    texts: Mapping[str, str]  # the pipeline's own files: SHA-256 by the name in the savepoint

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that it says."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    @property
    def checkpoint(self) -> Checkpoint:
        return self.begun.checkpoint

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables.values())

    def to_json(self) -> JsonObject:
        return {**self._content(), "digest": self.digest}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        """Raises KeyError, TypeError, ValueError: this is no manifest, or another one than was written."""
        content = {name: value for name, value in data.items() if name not in ("tables", "texts", "digest")}
        tables = {name: SavedTable.from_json(table) for name, table in data["tables"].items()}
        found = cls(Begun.from_json(content), tables, dict(data["texts"]))
        if found.digest != data["digest"]:
            raise ValueError("its digest is not that of its content")
        return found

    def _content(self) -> JsonObject:
        tables = {name: table.to_json() for name, table in self.tables.items()}
        return {**self.begun.to_json(), "tables": tables, "texts": dict(self.texts)}


def folder_of(participant: str) -> str:
    """The name of a table's folder in a savepoint. No table's own name has a `~`."""
    return participant.replace("/", "~")


def verify_name(pipeline: str, name: str) -> None:
    """Raises TerminalError: no savepoint can have this name."""
    if not re.fullmatch(_NAME, name):
        raise TerminalError(
            what="this is no name for a savepoint",
            where=pipeline,
            expected="letters, digits and _ . -, at most 63, of which the first is a letter or a digit",
            found=name[:100],
            action="choose another name",
        )


def verify_same(begun: Begun, is_copy: bool, is_deep: bool, checkpoint: str | None) -> None:
    """Checks that a savepoint that somebody has begun is the one that is wanted now.

    Args:
        checkpoint: the wanted one's name; None: any.

    Raises:
        TerminalError: it is another one.
    """
    wanted = is_copy, is_deep, checkpoint or begun.checkpoint.name
    if (begun.is_copy, begun.is_deep, begun.checkpoint.name) != wanted:
        raise TerminalError(
            what="another savepoint of this name was begun, and not ended",
            where=f"{begun.pipeline}, {begun.name}",
            expected=f"{_kind(is_copy, is_deep)} of checkpoint {wanted[2]}",
            found=f"{_kind(begun.is_copy, begun.is_deep)} of checkpoint {begun.checkpoint.name}, begun at "
            f"{begun.created_at} by {begun.created_by}",
            action="choose another name; or, if nobody is making that one now, remove what is there: "
            f"`lakemark savepoint drop {begun.pipeline} {begun.name}`",
        )


def _kind(is_copy: bool, is_deep: bool) -> str:
    return ("a copy" if is_copy else "a pin") + (" with the hash of every file" if is_deep else "")
