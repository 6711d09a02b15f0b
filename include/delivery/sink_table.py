"""A table in a database as a sink: what it is called, its columns, and how a row is found there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import FLAG, SinkColumn, sink_columns
from include.pipeline_file.sink_types import usual_type
from include.pipeline_file.sinks import Mode, Sink
from include.protocol.guarantees import Level

PROGRESS = "lakemark_progress"  # the table with where each sink stands, beside the sink's own


@dataclass(frozen=True)
class SinkTable:
    """What a database sink writes."""

    pipeline: str
    name: str  # the sink's
    system: str
    schema: str | None  # None: the database's own choice, until it was asked (`placed`)
    table: str
    columns: tuple[SinkColumn, ...]
    types: tuple[str, ...]  # of the columns, at the system
    flags: bool  # a delete leaves the row, and sets its flag
    guarantee: Level
    mode: Mode
    is_log: bool  # rows are only added to it
    binary_log: bool  # whoever reads MySQL's may see rows that are rolled back later

    @classmethod
    def of(cls, pipeline: Pipeline, name: str) -> Self:
        sink: Sink = pipeline.sinks[name]
        schema, _, table = sink.database.table.rpartition(".")
        columns = sink_columns(pipeline, sink)
        return cls(
            pipeline=pipeline.name,
            name=name,
            system=sink.system,
            schema=schema or None,
            table=table,
            columns=columns,
            types=tuple(sink.types.get(c.name) or usual_type(sink.system, c.type, c.is_key) for c in columns),
            flags=sink.flags_deletes,
            guarantee=sink.level,
            mode=sink.mode,
            is_log=sink.what == "changes",
            binary_log=sink.mysql is not None and sink.mysql.binary_log == "accepted",
        )

    @property
    def where(self) -> str:
        """For errors."""
        return f"{self.pipeline}, sink {self.name} ({self.system} {self.in_words})"

    @property
    def in_words(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def application(self) -> str:
        """What the server's administrator sees of a delivery."""
        return f"lakemark {self.pipeline}/{self.name}"

    @property
    def unfit_advice(self) -> str:
        """What a person can do about values that do not fit."""
        return (
            "change the type or the rule of the sink's column; or declare another type in `sinks` of the pipeline "
            f"file; or leave this delivery out: `lakemark sinks skip {self.pipeline} {self.name} --reason ...`"
        )

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def keys(self) -> list[str]:
        """The columns by which a row is found there. Rows of a log are not."""
        return [column.name for column in self.columns if column.is_key and not self.is_log]

    @property
    def values(self) -> list[str]:
        """The columns beside the key."""
        return [column.name for column in self.columns if not column.is_key]

    @property
    def flag(self) -> str | None:
        return FLAG if self.flags else None

    @property
    def lock(self) -> int:
        """The number of the lock that a delivery holds, and of what it prepares: 63 bits, the same for ever, also if
        the section names another table beside the same progress."""
        digest = hashlib.sha256(f"{self.pipeline}/{self.name}/{self.schema}".encode()).digest()
        return int.from_bytes(digest[:8]) >> 1
