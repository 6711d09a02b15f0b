"""Says which columns a sink gets: their names there, where each comes from, and which of them are the key. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from include.pipeline_file.declaration import Declaration
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.section import IS_CURRENT, LINEAGE, VALID_FROM, VALID_TO
from include.pipeline_file.sinks import Sink

PROGRESS_TOPIC = "{}.lakemark-progress"  # of a topic
FLAG = "lakemark_deleted"  # with `deletes: flag`
OPERATION = "lakemark_op"  # of a row in files
# A state of history is the work of one change, and has its place: two of one key may begin at the same time.
_OF_CHANGE = (Column("topic", "STRING"), Column("partition", "INT"), Column("offset", "BIGINT"))


@dataclass(frozen=True)
class SinkColumn:
    """A column at a sink."""

    name: str  # there
    path: tuple[str, ...]  # of the target's column, or of a field in its lineage
    type: str  # as Spark's DDL has it
    is_key: bool


def sink_columns(pipeline: Declaration, sink: Sink) -> tuple[SinkColumn, ...]:
    """The columns that a sink gets, the key's among them. A column of `sink.columns` that the target lacks is left out:
    the file's own check refuses it."""
    of_rows = pipeline.columns if sink.what == "changes" else columns_of_rows(pipeline)
    there = {column.name.lower(): column for column in of_rows}
    named = {name: there[of.lower()] for name, of in sink.columns.items() if of.lower() in there} or {
        column.name: column for column in there.values()
    }
    keys = {key.lower() for key in pipeline.change.keys}
    found = [SinkColumn(name, (of.name,), of.type, of.name.lower() in keys) for name, of in named.items()]
    if sink.what == "changes":
        deleted = SinkColumn(FLAG, (LINEAGE, "deleted"), "BOOLEAN", is_key=False)
        return (*found, deleted, *_of_change(is_key=False))
    return (*found, *(_of_change(is_key=True) if pipeline.change.history == "scd2" else ()))


def own_names(pipeline: Declaration, sink: Sink) -> frozenset[str]:
    """The names that Lakemark's own columns have at a sink, in small letters."""
    has_place = sink.what == "changes" or pipeline.change.history == "scd2"
    return frozenset(
        (FLAG, OPERATION, LINEAGE, *((column.name for column in _of_change(is_key=False)) if has_place else ()))
    )


def columns_of_rows(pipeline: Declaration) -> tuple[Column, ...]:
    """The columns of the target's rows that a sink can get."""
    if pipeline.change.history != "scd2":
        return pipeline.columns
    type_ = pipeline.valid_from.type if pipeline.change.order_by else "TIMESTAMP"  # its own check asks for an order
    return (*pipeline.columns, Column(VALID_FROM, type_), Column(VALID_TO, type_), Column(IS_CURRENT, "BOOLEAN"))


def _of_change(is_key: bool) -> Iterator[SinkColumn]:
    for column in _OF_CHANGE:
        yield SinkColumn(f"change_{column.name}", (LINEAGE, column.name), column.type, is_key=is_key)
