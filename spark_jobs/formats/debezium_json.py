"""Format `debezium-json`: Debezium's envelope, with or without its schema, as Kafka Connect's JSON converter writes it.

Times, dates and decimals come as numbers and encoded bytes. Their meaning is in the schema, if the record brings it
along, or else in the pipeline file.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.debezium import DATES, DECIMAL, OF_TIME, POSITIONS, UNIT_BY_SCHEMA
from include.pipeline_file.schema_ddl import DECIMALS, TIMESTAMPS, Column, scale_of
from spark_jobs.formats import debezium
from spark_jobs.formats.contract import RECORD
from spark_jobs.formats.functions import decimal_text, json_row, struct_of, text_value
from spark_jobs.formats.moments import within_years
from spark_jobs.formats.values import is_count, none_of, of_text

_ENVELOPE = f"{LINEAGE}_envelope"  # the result of `json_row` for it
_FIELDS = f"{LINEAGE}_fields"  # the row's columns in the schema that the record brings along; null without one
_OF_FIELDS = "ARRAY<STRUCT<field: STRING, type: STRING, name: STRING, parameters: MAP<STRING, STRING>>>"
_SCHEMA = f"STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: {_OF_FIELDS}>>>"
_CONVERTED = ("DATE", *TIMESTAMPS, *DECIMALS)
_BASE64 = r"^([A-Za-z0-9+/]{4}){0,15}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_SHOWN_MAX = 100  # characters of a value


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    read = records.withColumn(_ENVELOPE, json_row(F.col(f"{RECORD}.value"), _envelope(pipeline)))
    if not _asks_schema(pipeline.value_columns):
        fields = F.lit(None).cast(_OF_FIELDS)
    else:
        parts = F.col(f"{_ENVELOPE}.row.schema.fields")
        of_row = F.filter(parts, lambda f: f["field"].isin("after", "before"))
        fields = F.get(of_row, F.lit(0))["fields"]
    return debezium.decoded(read.withColumn(_FIELDS, fields), pipeline, _Json(pipeline))


def key_columns(key: Expression, schema: Expression, columns: Sequence[Column], pipeline: Pipeline) -> Expression:
    """A struct of key columns, from a key as Kafka Connect's JSON converter writes it, by the same rules as images.

    Args:
        key: bytes of its JSON object. schema: bytes of the schema that it brings along; null without one.
    """
    told = json_row(schema, f"STRUCT<fields: {_OF_FIELDS}>")
    row = json_row(key, _image(columns), pipeline.source.debezium.timestamps)["row"]
    values = (_converted(c, row[c.name], pipeline, told["row"]["fields"]).alias(c.name) for c in columns)
    return F.when(F.coalesce(told["problem"], told["lost"]).isNull(), F.struct(*values))


class _Json(debezium.Envelope):
    """An envelope in JSON: the record itself, or its `payload`. An image is the result of `json_row` for its JSON."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def undecodable(self) -> Expression:
        return self.unreadable(F.col(_ENVELOPE))

    def part(self, path: str) -> Expression:
        """A part of the bare envelope or of the one in `payload`, never of both: those are two different changes."""
        bare, within = F.col(f"{_ENVELOPE}.row.{path}"), F.col(f"{_ENVELOPE}.row.payload.{path}")
        return F.when(F.col(f"{_ENVELOPE}.row.payload.op").isNotNull(), within).otherwise(bare)

    def image(self, part: Expression, columns: Sequence[Column]) -> Expression:
        return json_row(part.cast("binary"), _image(columns), self._pipeline.source.debezium.timestamps)

    def unreadable(self, image: Expression) -> Expression:
        return F.coalesce(image["problem"], image["lost"])

    def raw(self, column: Column, image: Expression) -> Expression:
        return image["row"][column.name]

    def value(self, column: Column, image: Expression) -> Expression:
        return _converted(column, self.raw(column, image), self._pipeline, F.col(_FIELDS))

    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        if column.word not in _CONVERTED:
            return None  # `unreadable` gives the reason
        raw = self.raw(column, image)
        said = F.concat(F.lit(f"{none_of(column)}: "), F.substring(_said(raw), 1, _SHOWN_MAX))
        return F.when(raw.isNotNull() & value.isNull(), said)


def _envelope(pipeline: Pipeline) -> str:
    """The envelope's type, bare and within `payload`. The source block has only the fields that are needed."""
    columns, positions = pipeline.value_columns, pipeline.positions
    of_source = [name.removeprefix("source.") for name in positions if name.startswith("source.")]
    block = ", ".join(f"{spark_name(name)}: {POSITIONS[f'source.{name}']}" for name in of_source)
    parts = {"before": "VARIANT", "after": "VARIANT", "op": "STRING"}
    parts |= {"source": f"STRUCT<{block}>"} if block else {}
    parts |= {name: POSITIONS[name] for name in positions if not name.startswith("source.")}
    bare = ", ".join(f"{spark_name(name)}: {type_}" for name, type_ in parts.items())
    schema = f", schema: {_SCHEMA}" if _asks_schema(columns) else ""
    return f"STRUCT<{bare}, payload: STRUCT<{bare}>{schema}>"


def _asks_schema(columns: Sequence[Column]) -> bool:
    return any(column.word in _CONVERTED for column in columns)


def _image(columns: Sequence[Column]) -> str:
    """An image's type."""
    return struct_of(column._replace(type=_read_as(column)) for column in columns)


def _read_as(column: Column) -> str:
    """The type by which a column is read. For decimals it matters whether they are texts or numbers."""
    if column.word in DECIMALS:
        return "VARIANT"
    return "STRING" if column.word in _CONVERTED else column.type


def _converted(column: Column, raw: Expression, pipeline: Pipeline, fields: Expression) -> Expression:
    """A column's value as its declared type; null where it does not fit.

    Args:
        raw: of the type that `_read_as` returns. fields: see _FIELDS.
    """
    word, options = column.word, pipeline.source.debezium
    if word not in _CONVERTED:
        return raw
    said = F.get(F.filter(fields, lambda f: f["field"] == column.name), F.lit(0))
    if word in DECIMALS:
        return _decimal(column, raw, said, options.decimals == "precise")
    name = F.coalesce(said["name"], F.lit(""))
    is_other = name.startswith(OF_TIME[0]) | name.startswith(OF_TIME[1]) | (said["type"] == "string")
    is_other = F.coalesce(is_other, F.lit(False))  # a day, a time of day, a duration; or a text
    if word == "DATE":
        number = F.when(is_count(raw) & (name.isin(*DATES) | ~is_other), raw)
        return F.coalesce(within_years(F.date_from_unix_date(number.try_cast("int"))), of_text(raw, column))
    units = F.create_map(*(F.lit(text) for pair in UNIT_BY_SCHEMA.items() for text in pair))
    declared = F.when(is_other, "nobody knows").otherwise(options.timestamps)
    return text_value(raw, column, F.coalesce(units[name], declared))


def _decimal(column: Column, raw: Expression, said: Expression, is_precise: bool) -> Expression:
    """A DECIMAL column's value. A number stands for itself. A decimal without a declared scale is an object of scale
    and value. A text is a number, or the base64 of an unscaled two's complement integer: the schema says which, or
    the pipeline file where there is no schema.

    Args:
        raw: a VARIANT as `json_row` returns it. said: the schema's entry for the column.
    """
    object_ = json_row(F.when(raw.startswith("{"), raw).cast("binary"), "STRUCT<scale: INT, value: STRING>")["row"]
    declared = F.coalesce(said["parameters"]["scale"].try_cast("int"), F.lit(scale_of(column.type)))
    scale = F.when(raw.startswith("{"), object_["scale"]).otherwise(declared)
    text = F.when(raw.startswith('"'), F.substr(raw, F.lit(2)))
    is_told = F.coalesce(said["type"], said["name"]).isNotNull()
    is_decimal = F.coalesce(said["name"], F.lit("")) == DECIMAL
    is_encoded = F.when(is_told, is_decimal).otherwise(F.lit(is_precise))
    is_number = F.coalesce(said["type"] == "string", F.lit(not is_precise))
    unscaled = F.coalesce(object_["value"], F.when(is_encoded, text))
    # Only with its padding, as Kafka Connect writes it: Spark would take `12` for base64 and make -41 from it.
    encoded = F.when(unscaled.rlike(_BASE64), unscaled)
    integer = F.try_to_binary(encoded, F.lit("base64"))
    written = F.when(text.isNull(), raw).when(is_number, text)
    return of_text(F.coalesce(decimal_text(integer, scale), written), column)


def _said(raw: Expression) -> Expression:
    """A value as people write it, without the quotation mark of a VARIANT's text."""
    return F.when(raw.startswith('"'), F.substr(raw, F.lit(2))).otherwise(raw)
