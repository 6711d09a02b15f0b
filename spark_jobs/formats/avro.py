"""Formats `avro` and `debezium-avro` in Confluent's wire format: a zero byte, a schema's id in the registry, a record.

A batch may hold records of several schemas. Each record is decoded by the schema that it was written with, and the
declared columns are taken from it by name. Source: Confluent's documentation of its serializers, "Wire format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ArithmeticException, PySparkException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.debezium import POSITIONS
from include.pipeline_file.schema_ddl import Column, nested
from include.sources.avro_schema import AvroField, AvroSchema
from include.sources.schema_registry import NoSchema, SchemaRegistry
from spark_jobs.formats import debezium
from spark_jobs.formats.avro_values import is_lost, typed
from spark_jobs.formats.contract import (
    ABSENT,
    DECODED,
    NO_VALUE,
    RECORD,
    RESCUED_JSON,
    UNDECODABLE,
    no_names,
    of_plain_rows,
)
from spark_jobs.formats.framing import schema_id, schema_ids, unreadable
from spark_jobs.formats.functions import struct_of
from spark_jobs.formats.values import none_of

_ID, _ROW, _LOST, _IMAGE_LOST = (f"{LINEAGE}_{name}" for name in ("schema_id", "avro", "lost", "image_lost"))
_ENVELOPE = f"{LINEAGE}_envelope"
_OF_AVRO = re.compile(r"org\.apache\.(spark\.sql\.)?avro\.\w*")  # the class of an exception
_Make = Callable[[Expression, AvroSchema], Expression]


@dataclass(frozen=True)
class _Written:
    """Records with their decoded Avro, in one column for every schema among them."""

    records: DataFrame
    schemas: Mapping[int, AvroSchema | NoSchema]  # by id

    @classmethod
    def of(cls, records: DataFrame, framed: Expression, pipeline: Pipeline, make: _Make) -> _Written:
        """Decodes the bytes `framed`.

        Args:
            make: will be applied to the rows.

        Raises:
            RetryableError, TerminalError: see `SchemaRegistry.avro`.
        """
        known = records.withColumn(_ID, schema_id(framed))
        registry = SchemaRegistry.of(pipeline.source)
        schemas = {number: registry.avro(number) for number in schema_ids(known, _ID)}
        schemas = {number: _readable(known, number, schema, make) for number, schema in schemas.items()}
        bare = F.substring(framed, F.lit(6), F.length(framed))
        rows = [
            F.when(F.col(_ID) == number, _read(bare, schema)).alias(_row(number))
            for number, schema in schemas.items()
            if isinstance(schema, AvroSchema)
        ]
        return cls(known.select("*", *rows), schemas)

    def chosen(self, make: _Make, type_: str) -> Expression:
        """Applies `make` to each record with the record's own schema. Null if there is no schema, or no row of it."""
        none = F.lit(None).cast(type_)
        found = F.when(F.lit(False), none)
        for number, schema in self.schemas.items():
            if isinstance(schema, AvroSchema):
                row = F.col(_row(number))
                found = found.when((F.col(_ID) == number) & row.isNotNull(), make(row, schema))
        return found.otherwise(none)

    @property
    def undecodable(self) -> Expression:
        """Why bytes that are not null are no record; null: they are one."""
        problems = [unreadable(F.col(_ID), self.schemas)]
        for number, schema in self.schemas.items():
            if isinstance(schema, AvroSchema):
                row = F.col(_row(number))
                # Spark makes a row of nulls from bytes that are no record of the schema.
                held = F.array_contains(F.array(*(row[name].isNotNull() for name in schema.fields)), True)
                problems.append(F.when((F.col(_ID) == number) & (row.isNull() | ~held), UNDECODABLE))
        return F.coalesce(*problems)


def _read(bare: Expression, schema: AvroSchema) -> Expression:
    return from_avro(bare, schema.read_as, {"mode": "PERMISSIVE"})


def _readable(records: DataFrame, number: int, schema: AvroSchema | NoSchema, make: _Make) -> AvroSchema | NoSchema:
    """The schema, if Spark can read records by it; it cannot if, for instance, the schema refers to itself."""
    if isinstance(schema, NoSchema):
        return schema
    if not schema.is_record:
        return NoSchema(f"schema {number} is no record")
    if not schema.is_bounded:
        return NoSchema(
            f"schema {number} has arrays of what takes no bytes, so that a record may claim any number of it"
        )
    try:
        row = records.sparkSession.range(0).select(_read(F.lit(None).cast("binary"), schema).alias("row"))
        fields = (F.col("row")[name] for name in schema.fields)
        row.select(make(F.col("row"), schema), F.struct(*fields)).schema  # noqa: B018 - Spark looks at the plan
    except PySparkException as error:
        # An ArithmeticException: a decimal of more digits than Spark has.
        if not isinstance(error, AnalysisException | ArithmeticException) and not _OF_AVRO.search(str(error)):
            raise  # a server that went away says nothing about a schema
        return NoSchema(f"schema {number} is none that Spark can read")
    return schema


def _row(number: int) -> str:
    return f"{_ROW}_{number}"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Decodes format `avro`: records (struct RECORD) with the contract's columns."""
    columns, partial = pipeline.value_columns, pipeline.partial_columns
    written = _Written.of(records, F.col(f"{RECORD}.value"), pipeline, _typed(columns, pipeline))
    deciding = pipeline.deciding_columns if pipeline.rescues else {column.name for column in columns}
    judged = [column for column in columns if column.name in deciding]

    def lost(row: Expression, schema: AvroSchema) -> Expression:
        """The reason for the first value that does not fit its declared type, string; null: all fit."""
        said = (
            F.when(_is_lost(c, row, schema.fields, pipeline), none_of(c)) for c in judged if c.name in schema.fields
        )
        return F.coalesce(F.lit(None).cast("string"), *said)

    def absent(row: Expression, schema: AvroSchema) -> Expression:
        return F.array(*(F.lit(name) for name in partial if name not in schema.fields)).cast("array<string>")

    def rescued(row: Expression, schema: AvroSchema) -> Expression:
        declared = {column.name: column for column in columns}
        kept = []
        for name in schema.fields:
            raw = row[name]
            if name in declared:
                raw = F.when(_value(declared[name], row, schema.fields, pipeline).isNull(), raw)
            kept.append(raw.alias(name))
        text = F.make_valid_utf8(F.to_json(F.struct(*kept)))  # `to_json` leaves nulls out
        return F.when(text != "{}", text)

    found = written.records.select(
        "*",
        *([written.chosen(rescued, "STRING").alias(RESCUED_JSON)] if pipeline.rescues else []),
        written.chosen(_typed(columns, pipeline), struct_of(columns, marks=False)).alias(DECODED),
        written.chosen(lost, "STRING").alias(_LOST),
        (written.chosen(absent, "ARRAY<STRING>") if partial else no_names()).alias(ABSENT),
    )
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE)
    problem = problem.when(written.undecodable.isNotNull(), written.undecodable)
    rescued_or_none = F.col(RESCUED_JSON) if pipeline.rescues else None
    return of_plain_rows(found, problem.otherwise(F.col(_LOST)), F.col(ABSENT), rescued_or_none)


def with_rows(
    records: DataFrame, framed: Expression, columns: Sequence[Column], pipeline: Pipeline, name: str
) -> DataFrame:
    """Adds the column `name`: a struct of `columns`, from the bytes `framed`; null where these are no record."""
    written = _Written.of(records, framed, pipeline, _typed(columns, pipeline))
    made = written.chosen(_typed(columns, pipeline), struct_of(columns, marks=False))
    return written.records.withColumn(name, made).select(*records.columns, name)


def _typed(columns: Sequence[Column], pipeline: Pipeline) -> _Make:
    def make(row: Expression, schema: AvroSchema) -> Expression:
        return F.struct(*(_value(c, row, schema.fields, pipeline).alias(c.name) for c in columns))

    return make


def _value(column: Column, row: Expression, fields: Mapping[str, AvroField], pipeline: Pipeline) -> Expression:
    """A column as its declared type; null where the schema has no such name, or where the value or a part of it does
    not fit the type."""
    field = fields.get(column.name)
    if field is None:
        return F.lit(None).cast(column.type)
    raw = row[column.name]
    value = typed(raw, field, column, pipeline)
    return F.when(~is_lost(raw, value, field, column.type), value) if nested(column.type) else value


def _is_lost(column: Column, row: Expression, fields: Mapping[str, AvroField], pipeline: Pipeline) -> Expression:
    """Whether the row has a value of the name that does not fit the declared type."""
    return row[column.name].isNotNull() & _value(column, row, fields, pipeline).isNull()


def decoded_debezium(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Decodes format `debezium-avro`: records (struct RECORD) with the contract's columns."""
    columns = pipeline.value_columns
    positions = {name: POSITIONS[name] for name in pipeline.positions}
    image = struct_of([*columns, Column(_IMAGE_LOST, "ARRAY<STRING>")], marks=False)
    parts = {"op": "STRING", "before": image, "after": image, **positions}
    type_ = struct_of(Column(name, part) for name, part in parts.items())

    def of_image(name: str, row: Expression, schema: AvroSchema) -> Expression:
        if name not in schema.fields:
            return F.lit(None).cast(image).alias(name)
        fields, found = schema.fields[name].fields, row[name]
        values = [_value(column, found, fields, pipeline).alias(column.name) for column in columns]
        names = (F.when(_is_lost(c, found, fields, pipeline), c.name) for c in columns if c.name in fields)
        lost = F.array_compact(F.array(*names).cast("array<string>"))
        return F.when(found.isNotNull(), F.struct(*values, lost.alias(_IMAGE_LOST))).alias(name)

    def of_position(name: str, position: str, row: Expression, schema: AvroSchema) -> Expression:
        block, _, within = name.rpartition(".")
        fields = schema.fields[block].fields if block and block in schema.fields else schema.fields
        if (within or name) not in fields or (block and block not in schema.fields):
            return F.lit(None).cast(position).alias(name)
        return (row[block][within] if block else row[name]).try_cast(position).alias(name)

    def envelope(row: Expression, schema: AvroSchema) -> Expression:
        op = row["op"].cast("string") if "op" in schema.fields else F.lit(None).cast("string")
        images = (of_image(name, row, schema) for name in ("before", "after"))
        places = (of_position(name, position, row, schema) for name, position in positions.items())
        return F.struct(op.alias("op"), *images, *places)

    written = _Written.of(records, F.col(f"{RECORD}.value"), pipeline, envelope)
    whole = written.records.withColumn(_ENVELOPE, written.chosen(envelope, type_))
    return debezium.decoded(whole, pipeline, _Avro(written))


@dataclass(frozen=True)
class _Avro(debezium.Envelope):
    """An envelope whose values are converted already, each by its record's own schema."""

    written: _Written

    @property
    def undecodable(self) -> Expression:
        return self.written.undecodable

    def part(self, path: str) -> Expression:
        return F.col(f"{_ENVELOPE}.`{path}`")

    def value(self, column: Column, image: Expression) -> Expression:
        return image[column.name]

    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        is_lost_here = F.array_contains(image[_IMAGE_LOST], column.name)
        return F.when(is_lost_here, none_of(column))
