"""Format `debezium-json`: Debezium's envelope, with or without its schema, as Kafka Connect's JSON converter writes it.

Times, dates and decimals come as numbers and encoded bytes; what these mean says the schema where a record brings it
along, else the pipeline file.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.debezium import POSITIONS, UNIT_BY_SCHEMA
from include.pipeline_file import LINEAGE, Pipeline
from include.schema_ddl import DECIMALS, TIMESTAMPS, Column, scale_of
from spark_jobs.formats import debezium
from spark_jobs.formats.contract import RECORD
from spark_jobs.formats.decimals import decimal_text
from spark_jobs.formats.json_row import json_row
from spark_jobs.formats.moments import moment, within_years
from spark_jobs.formats.values import is_count, of_text

_ENVELOPE = f"{LINEAGE}_envelope"  # what `json_row` says of it
_SCHEMA = "STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, name: STRING, " + (
    "parameters: MAP<STRING, STRING>>>>>>"
)
_CONVERTED = ("DATE", *TIMESTAMPS, *DECIMALS)
_BASE64 = r"^([A-Za-z0-9+/]{4}){0,15}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_SHOWN_MAX = 100  # characters of a value


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    read = records.withColumn(_ENVELOPE, json_row(F.col(f"{RECORD}.value"), _envelope(pipeline)))
    return debezium.decoded(read, pipeline, _Json(pipeline))


class _Json(debezium.Envelope):
    """Wherever in the record it is: bare, or within `payload`. An image is what `json_row` says of its JSON."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def undecodable(self) -> Expression:
        return F.coalesce(*(F.col(f"{of}.{why}") for of in (_ENVELOPE, debezium.IMAGE) for why in ("problem", "lost")))

    def part(self, path: str) -> Expression:
        return F.coalesce(F.col(f"{_ENVELOPE}.row.payload.{path}"), F.col(f"{_ENVELOPE}.row.{path}"))

    def image(self, part: Expression) -> Expression:
        return json_row(part.cast("binary"), _image(self._pipeline), self._pipeline.source.debezium.timestamps)

    def raw(self, column: Column, image: Expression) -> Expression:
        return image["row"][column.name]

    def value(self, column: Column, image: Expression) -> Expression:
        return _converted(column, self.raw(column, image), self._pipeline)

    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        if column.word not in _CONVERTED:
            return None  # `undecodable` tells
        raw = self.raw(column, image)
        said = F.concat(F.lit(f"column {column.name} is no {column.type}: "), F.substring(_said(raw), 1, _SHOWN_MAX))
        return F.when(raw.isNotNull() & value.isNull(), said)


def _envelope(pipeline: Pipeline) -> str:
    """The envelope's type, bare and within `payload`; of the source block only what is asked for."""
    columns, positions = pipeline.source.value_columns, pipeline.positions
    of_source = [name.removeprefix("source.") for name in positions if name.startswith("source.")]
    block = ", ".join(f"`{name}`: {POSITIONS[f'source.{name}']}" for name in of_source)
    parts = {"before": "VARIANT", "after": "VARIANT", "op": "STRING"}
    parts |= {"source": f"STRUCT<{block}>"} if block else {}
    parts |= {name: POSITIONS[name] for name in positions if not name.startswith("source.")}
    bare = ", ".join(f"`{name}`: {type_}" for name, type_ in parts.items())
    schema = f", schema: {_SCHEMA}" if any(column.word in _CONVERTED for column in columns) else ""
    return f"STRUCT<{bare}, payload: STRUCT<{bare}>{schema}>"


def _image(pipeline: Pipeline) -> str:
    """An image's type."""
    return f"STRUCT<{', '.join(f'`{c.name}`: {_read_as(c, pipeline)}' for c in pipeline.source.value_columns)}>"


def _read_as(column: Column, pipeline: Pipeline) -> str:
    """The type by which a column is read. Of `precise` decimals it matters whether they are texts or numbers."""
    if column.word in DECIMALS and pipeline.source.debezium.decimals == "precise":
        return "VARIANT"
    return "STRING" if column.word in _CONVERTED else column.type


def _converted(column: Column, raw: Expression, pipeline: Pipeline) -> Expression:
    """A column's value as its declared type; null where that cannot be."""
    word, options = column.word, pipeline.source.debezium
    if word in DECIMALS:
        return of_text(raw, column.type) if options.decimals == "string" else _precise(column, raw)
    if word not in _CONVERTED:
        return raw
    number = F.when(is_count(raw), raw)
    if word == "DATE":
        return F.coalesce(within_years(F.date_from_unix_date(number.try_cast("int"))), of_text(raw, word))
    units = F.create_map(*(F.lit(text) for pair in UNIT_BY_SCHEMA.items() for text in pair))
    unit = F.coalesce(units[_of_schema(column, "name")], F.lit(options.timestamps))
    return F.coalesce(moment(number.try_cast("bigint"), unit).cast(word), of_text(raw, word))


def _precise(column: Column, raw: Expression) -> Expression:
    """Numbers as they are; texts are the base64 of an unscaled two's complement integer, and decimals without a
    declared scale are an object of scale and value.

    Args:
        raw: as `json_row` gives a VARIANT.
    """
    object_ = json_row(F.when(raw.startswith("{"), raw).cast("binary"), "STRUCT<scale: INT, value: STRING>")["row"]
    scale = F.coalesce(
        object_["scale"], _of_schema(column, "parameters")["scale"].try_cast("int"), F.lit(scale_of(column.type))
    )
    unscaled = F.coalesce(object_["value"], F.when(raw.startswith('"'), F.substr(raw, F.lit(2))))
    # With its padding, as Kafka Connect writes it: Spark would take `12` for base64, and make -41 of it.
    encoded = F.when(unscaled.rlike(_BASE64), unscaled)
    digits = F.hex(F.try_to_binary(encoded, F.lit("base64")))
    return F.coalesce(decimal_text(digits, scale).try_cast(column.type), of_text(raw, column.type))


def _said(raw: Expression) -> Expression:
    """A value as people write it."""
    return F.when(raw.startswith('"'), F.substr(raw, F.lit(2))).otherwise(raw)


def _of_schema(column: Column, attribute: str) -> Expression:
    """An attribute of the column in the schema that the record brings along; null without one."""
    fields = F.col(f"{_ENVELOPE}.row.schema.fields")
    of_row = F.filter(fields, lambda f: f["field"].isin("after", "before"))
    found = F.filter(F.get(of_row, F.lit(0))["fields"], lambda f: f["field"] == column.name)
    return F.get(found, F.lit(0))[attribute]
