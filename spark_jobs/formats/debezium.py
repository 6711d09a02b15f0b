"""Reads a change from Debezium's envelope, in any encoding.

The row of an insert, update or snapshot is `after`. The row of a delete is `before`, which may hold the key alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.debezium import may_be_unavailable
from include.pipeline_file.schema_ddl import Column, nested, word_of
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

IMAGE = f"{LINEAGE}_image"  # the image that is the row, as `Envelope.image` makes it
# Parts of the image `before`. _GONE: a delete's keys, and what orders it. _OLD: the keys that an upsert's row had.
_GONE, _OLD = (f"{LINEAGE}_{name}_image" for name in ("gone", "old"))
_KINDS = {"c": "upsert", "u": "upsert", "r": "upsert", "d": "delete", "t": "truncate", "m": "none"}

_FILE_DIGITS = 6  # in the number of a binary log's file, until more are needed
_LONG_NUMBER = r"^(.*\.)([0-9]{7,10})\z"


class Envelope(ABC):
    """How an encoding finds the parts of an envelope. The envelope is one column of the records, or several."""

    @property
    @abstractmethod
    def undecodable(self) -> Expression:
        """Why a record that has a value is no envelope, string; null: it is one."""

    @abstractmethod
    def part(self, path: str) -> Expression:
        """`op`, `before`, `after` (images of the row), or a position by its name."""

    def image(self, part: Expression, columns: Sequence[Column]) -> Expression:
        """Makes an image of these columns from `part`. The other methods take it. Null if `part` is null."""
        return part

    def unreadable(self, image: Expression) -> Expression:
        """Why a part is no image, or why a column is lost when `problem` gives no reason; null: neither."""
        return F.lit(None).cast("string")

    def raw(self, column: Column, image: Expression) -> Expression:
        """A column of an image as the encoding has it."""
        return image[column.name]

    @abstractmethod
    def value(self, column: Column, image: Expression) -> Expression:
        """A column of an image as its declared type; null where it does not fit."""

    @abstractmethod
    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        """Why the conversion to `value` lost the image's value, string; None: it never does."""


def decoded(records: DataFrame, pipeline: Pipeline, envelope: Envelope) -> DataFrame:
    """Records (struct RECORD, and what the envelope needs) with the contract's columns."""
    columns, positions = pipeline.value_columns, pipeline.positions
    of_kind = F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))[envelope.part("op")]
    image = F.when(envelope.part("op") == "d", envelope.part("before")).otherwise(envelope.part("after"))
    whole = records.select("*", of_kind.alias(KIND), envelope.image(image, columns).alias(IMAGE))
    gone = F.when(F.col(KIND) == "delete", envelope.image(envelope.part("before"), _of_deletes(pipeline)))
    old = F.when(F.col(KIND) == "upsert", envelope.image(envelope.part("before"), _previous_keys(pipeline)))
    images = [gone.alias(_GONE), *([old.alias(_OLD)] if _previous_keys(pipeline) else [])]
    values = F.struct(*(_value(column, pipeline, envelope).alias(column.name) for column in columns))
    position = F.struct(*(_place(name, envelope).alias(name) for name in positions)) if positions else no_position()
    found = whole.select("*", *images, values.alias(DECODED), position.alias(POSITION))
    return found.select(
        RECORD,
        DECODED,
        POSITION,
        F.coalesce(KIND, F.lit("none")).alias(KIND),
        _absent(pipeline, envelope).alias(ABSENT),
        _previous(pipeline, envelope).alias(PREVIOUS),
        _problem(pipeline, envelope).alias(PROBLEM),
    )


def _place(name: str, envelope: Envelope) -> Expression:
    """A position in a form that can be compared.

    The numbers of MySQL's files have six digits, and more when six are not enough. Longer numbers get a prefix: a
    character that sorts after all digits, and a later one for each further digit. So `binlog.1000000` comes after
    `binlog.999999`. (Names with six digits stay as they are, because tables hold them.)
    """
    place = envelope.part(name)
    if name != "source.file":
        return place
    file, number = (F.regexp_extract(place, _LONG_NUMBER, group) for group in (1, 2))
    behind_digits = F.char(F.length(number) + F.lit(ord("9") - _FILE_DIGITS))
    return F.when(place.rlike(_LONG_NUMBER), F.concat(file, behind_digits, number)).otherwise(place)


def _of_deletes(pipeline: Pipeline) -> list[Column]:
    """The columns that a delete needs: the keys and the order. The others may hold anything, because the row goes."""
    names = pipeline.change.placing_columns
    return [column for column in pipeline.value_columns if column.name in names]


def _previous_keys(pipeline: Pipeline) -> list[Column]:
    """The key columns whose old values are taken from the image `before`; none if the pipeline does not use it."""
    if not pipeline.moves_keys or pipeline.change.previous_keys:
        return []
    return [column for column in pipeline.value_columns if column.name in pipeline.change.keys]


def _value(column: Column, pipeline: Pipeline, envelope: Envelope) -> Expression:
    """A column of the row image; null where its value is unavailable."""
    value = envelope.value(column, F.col(IMAGE))
    if column.name not in pipeline.partial_columns:
        return value
    return F.when(~F.coalesce(_is_unavailable(column, pipeline, envelope), F.lit(False)), value)


def _is_unavailable(column: Column, pipeline: Pipeline, envelope: Envelope) -> Expression:
    """Whether a column holds Debezium's placeholder for an unavailable value."""
    raw, text = envelope.raw(column, F.col(IMAGE)), F.lit(pipeline.source.debezium.unavailable)
    match nested(column.type):
        case None:
            return raw == (text.cast("binary") if column.word == "BINARY" else text)
        case ("MAP", _):  # maps cannot be compared
            return (F.size(raw) == 1) & (F.try_element_at(raw, text) == text)
        case (_, inner):
            return raw == _unavailable_items(word_of(inner), pipeline.source.debezium.unavailable)


def _unavailable_items(word: str, text: str) -> Expression:
    """The placeholder as an array: one item; for numbers and dates (stored as numbers) an item for each byte."""
    if word in ("STRING", "BINARY"):
        return F.array(F.lit(text).cast(word))
    signed = F.array(*(F.lit(byte - 256 if byte > 127 else byte) for byte in text.encode()))
    if word == "DATE":
        return F.transform(signed, F.date_from_unix_date)
    return signed.cast(f"array<{word}>")


def _absent(pipeline: Pipeline, envelope: Envelope) -> Expression:
    """The columns that the database did not send, because their large values have not changed (TOAST)."""
    partial = [column for column in pipeline.value_columns if column.name in pipeline.partial_columns]
    if not partial:
        return no_names()
    names = F.array(*(F.when(_is_unavailable(column, pipeline, envelope), column.name) for column in partial))
    return F.when(F.col(KIND) == "upsert", F.array_compact(names))


def _previous(pipeline: Pipeline, envelope: Envelope) -> Expression:
    """The keys in the image `before`. PostgreSQL's image holds keys that change, even where it holds nothing else."""
    columns, before = _previous_keys(pipeline), F.col(_OLD)
    if not columns:
        return F.lit(None)
    return F.when(before.isNotNull(), F.struct(*(envelope.value(c, before).alias(c.name) for c in columns)))


def _problem(pipeline: Pipeline, envelope: Envelope) -> Expression:
    is_upsert, is_delete = F.col(KIND) == "upsert", F.col(KIND) == "delete"
    unreadable = F.when(is_delete, envelope.unreadable(F.col(_GONE))).otherwise(envelope.unreadable(F.col(IMAGE)))
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE)
    problem = problem.when(envelope.undecodable.isNotNull(), envelope.undecodable)
    problem = problem.when(unreadable.isNotNull(), unreadable)
    problem = problem.when(F.col(KIND).isNull(), "not an envelope of Debezium: it has no known `op`")
    problem = problem.when(is_upsert & F.col(IMAGE).isNull(), "the envelope has no row in `after`")
    of_deletes = _of_deletes(pipeline)
    for column in pipeline.value_columns:
        if may_be_unavailable(column) and column.name not in pipeline.partial_columns:
            unknown = is_upsert & _is_unavailable(column, pipeline, envelope)
            problem = problem.when(unknown, f"column {column.name} is not in the change (unavailable value)")
        lost = envelope.problem(column, F.col(IMAGE), field(DECODED, column.name))
        if lost is not None:
            is_judged = F.col(KIND).isin("upsert", *(["delete"] if column in of_deletes else []))
            problem = problem.when(is_judged & lost.isNotNull(), lost)
    for said in _unknown_old_keys(pipeline, envelope):
        problem = problem.when(is_upsert & said.isNotNull(), F.concat(F.lit("in `before`: "), said))
    return problem


def _unknown_old_keys(pipeline: Pipeline, envelope: Envelope) -> list[Expression]:
    """Why the old row of an upsert is unknown, strings; null: it is known. An unknown old row would stay for ever."""
    keys, before = _previous_keys(pipeline), F.col(_OLD)
    if not keys:
        return []
    lost = (envelope.problem(column, before, envelope.value(column, before)) for column in keys)
    # The image `before` may lack some of the keys. If none of the others has changed, no key has.
    old = [(envelope.value(column, before), field(DECODED, column.name)) for column in keys]
    untold = F.array_contains(F.array(*(was.isNull() for was, _ in old)), True)
    changed = F.array_contains(F.array(*(F.coalesce(was != now, F.lit(False)) for was, now in old)), True)
    partly = F.when(before.isNotNull() & untold & changed, "a key has changed, and it does not hold all of them")
    return [envelope.unreadable(before), *(said for said in lost if said is not None), partly]
