"""Two participants that exist only here: a table before the point, which is only added to, and a system after it.

They show what a new participant costs: this file, and `add_to_catalog`, which stands for one line in the catalog. All
else (the attempt, fences, resets, rebuilds, audit, maintenance, this matrix) finds them there. A pipeline has them if
its name begins with `noted`. The system after the point is a real one: an SQLite database, in a file of its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from include.participants import catalog
from include.participants.follower import Follower
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import AppendSpec
from include.protocol.guarantees import Level
from include.protocol.participants import NOWHERE, Position
from include.protocol.settlement import LandedCommit

FOLDER = "LAKEMARK_MATRIX_FOLDER"  # names where the databases lie
_PLACE = ("topic", "partition", "offset")
_COLUMNS = tuple(
    Column(name, type_)
    for name, type_ in zip(
        (*_PLACE, "generation", "batch_id"), ("STRING", "INT", "BIGINT", "INT", "BIGINT"), strict=True
    )
)
_SCHEMA = (
    "create table if not exists deliveries (version integer, table_id text, generation integer, batch_id integer, "
    "digest text, primary key (table_id, version))"
)


def add_to_catalog() -> None:
    if notes not in catalog.KINDS:
        catalog.KINDS.insert(0, notes)


def notes(pipeline: Pipeline) -> Iterator[Participant | Follower]:
    """Where each record came from, before the point; which commits landed, after it."""
    if not pipeline.name.startswith("noted") or pipeline.is_landing:
        return
    table = f"lake://silver/{pipeline.name}_notes"
    yield Participant(
        name="notes",
        role="note",
        place="before",
        takes="records",
        path=table.removeprefix("lake://"),
        make_spec=lambda: AppendSpec(pipeline.name, table, _COLUMNS, _PLACE),
        phase="notes",
        in_words=f"the notes {table}",
        because="one append per batch, carrying its marker",
        by_chunks=False,
    )
    yield Recorder(pipeline.name)


@dataclass(frozen=True)
class Recorder:
    """A database that writes down every commit that it gets."""

    pipeline: str
    name: str = "recorder"
    in_words: str = "a database that records commits"
    level: Level = "exactly_once"
    because: str = "the record and the position in one transaction, compared with the one before"

    def position(self) -> Position:
        with closing(self._open()) as database:
            return self._position(database)

    def deliver(self, commit: LandedCommit, after: Position) -> None:
        batch, version = commit.metadata.batch, commit.table_version
        with closing(self._open()) as database, database:
            database.execute("begin immediate")
            if self._position(database) == after:
                row = (version, commit.table_id, batch.generation, batch.batch_id, commit.metadata.digest)
                database.execute("insert into deliveries values (?, ?, ?, ?, ?)", row)

    def delivered(self) -> list[tuple[str, int]]:
        """Table ids and versions, in the order of delivery."""
        with closing(self._open()) as database:
            return list(database.execute("select table_id, version from deliveries order by rowid"))

    def _position(self, database: sqlite3.Connection) -> Position:
        order = "select * from deliveries order by rowid desc limit 1"
        for version, table_id, generation, batch_id, digest in database.execute(order):
            return Position(generation, batch_id, 0, digest=digest, version=version, identity=table_id)
        return NOWHERE

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(Path(os.environ[FOLDER]) / f"{self.pipeline}.sqlite", timeout=60)
        database.isolation_level = None  # transactions begin where the code says so
        database.execute(_SCHEMA)
        return database
