"""What Debezium's envelope says of a row, whatever it is encoded in.

An insert, update or snapshot row is `after`; a delete is `before`, which may hold the key alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.debezium import may_be_unavailable
from include.pipeline_file import LINEAGE, Pipeline
from include.schema_ddl import Column
from spark_jobs.formats.contract import (
    ABSENT,
    DECODED,
    KIND,
    NO_VALUE,
    POSITION,
    PREVIOUS,
    PROBLEM,
    RECORD,
    field,
    no_names,
    no_position,
)

IMAGE = f"{LINEAGE}_image"  # what `Envelope.image` makes of the image that is the row
_KINDS = {"c": "upsert", "u": "upsert", "r": "upsert", "d": "delete", "t": "truncate", "m": "none"}


class Envelope(ABC):
    """An encoding's way to the parts of an envelope, which is a column (or several) of the records."""

    @property
    @abstractmethod
    def undecodable(self) -> Expression:
        """Why a record that has a value is no envelope, string; null: it is one."""

    @abstractmethod
    def part(self, path: str) -> Expression:
        """`op`, `before`, `after` (images of the row), or a position by its name."""

    def image(self, part: Expression) -> Expression:
        """What the other methods take for an image, of a part that is one; null where there is none."""
        return part

    def raw(self, column: Column, image: Expression) -> Expression:
        """A column of an image as the encoding has it."""
        return image[column.name]

    @abstractmethod
    def value(self, column: Column, image: Expression) -> Expression:
        """A column of an image as its declared type; null where that cannot be."""

    @abstractmethod
    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        """Why `value` is none that the image holds, string; None: that cannot be."""


def decoded(records: DataFrame, pipeline: Pipeline, envelope: Envelope) -> DataFrame:
    """Records (struct RECORD, and what the envelope needs) with the contract's columns."""
    columns, positions = pipeline.source.value_columns, pipeline.positions
    of_kind = F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))[envelope.part("op")]
    image = F.when(envelope.part("op") == "d", envelope.part("before")).otherwise(envelope.part("after"))
    whole = records.select("*", of_kind.alias(KIND), envelope.image(image).alias(IMAGE))
    values = F.struct(*(_value(column, pipeline, envelope).alias(column.name) for column in columns))
    position = F.struct(*(envelope.part(name).alias(name) for name in positions)) if positions else no_position()
    found = whole.select("*", values.alias(DECODED), position.alias(POSITION))
    return found.select(
        RECORD,
        DECODED,
        POSITION,
        F.coalesce(KIND, F.lit("none")).alias(KIND),
        _absent(pipeline, envelope).alias(ABSENT),
        _previous(pipeline, envelope).alias(PREVIOUS),
        _problem(pipeline, envelope).alias(PROBLEM),
    )


def _value(column: Column, pipeline: Pipeline, envelope: Envelope) -> Expression:
    """A column of the row image; null where its value is unavailable."""
    value = envelope.value(column, F.col(IMAGE))
    if column.name not in pipeline.partial_columns:
        return value
    return F.when(~F.coalesce(_is_unavailable(column, pipeline, envelope), F.lit(False)), value)


def _is_unavailable(column: Column, pipeline: Pipeline, envelope: Envelope) -> Expression:
    """Whether the placeholder stands in a column's place."""
    raw, text = envelope.raw(column, F.col(IMAGE)), F.lit(pipeline.source.debezium.unavailable)
    match column.word:
        case "BINARY":
            return raw == text.cast("binary")
        case "ARRAY":
            return raw == F.array(text)
        case _:
            return raw == text


def _absent(pipeline: Pipeline, envelope: Envelope) -> Expression:
    """Large values that the database did not send, because they are as they were (TOAST)."""
    partial = [column for column in pipeline.source.value_columns if column.name in pipeline.partial_columns]
    if not partial:
        return no_names()
    names = F.array(*(F.when(_is_unavailable(column, pipeline, envelope), column.name) for column in partial))
    return F.when(F.col(KIND) == "upsert", F.array_compact(names))


def _previous(pipeline: Pipeline, envelope: Envelope) -> Expression:
    """The keys in the image of before: PostgreSQL's holds them, where nothing else, when they change."""
    before, keys = envelope.image(envelope.part("before")), pipeline.change.keys
    columns = [column for column in pipeline.source.value_columns if column.name in keys]
    values = (envelope.value(column, before).alias(column.name) for column in columns)
    return F.when((F.col(KIND) == "upsert") & before.isNotNull(), F.struct(*values))


def _problem(pipeline: Pipeline, envelope: Envelope) -> Expression:
    is_upsert = F.col(KIND) == "upsert"
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE)
    problem = problem.when(envelope.undecodable.isNotNull(), envelope.undecodable)
    problem = problem.when(F.col(KIND).isNull(), "not an envelope of Debezium: it has no known `op`")
    problem = problem.when(is_upsert & F.col(IMAGE).isNull(), "the envelope has no row in `after`")
    for column in pipeline.source.value_columns:
        if may_be_unavailable(column) and column.name not in pipeline.partial_columns:
            unknown = is_upsert & _is_unavailable(column, pipeline, envelope)
            problem = problem.when(unknown, f"column {column.name} is not in the change (unavailable value)")
        lost = envelope.problem(column, F.col(IMAGE), field(DECODED, column.name))
        if lost is not None:
            problem = problem.when(F.col(KIND).isin("upsert", "delete") & lost.isNotNull(), lost)
    return problem
