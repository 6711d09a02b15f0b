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
from spark_jobs.formats.contract import RECORD, UNDECODABLE
from spark_jobs.formats.decimals import decimal_text
from spark_jobs.formats.moments import moment, within_years
from spark_jobs.formats.plain_json import json_problem
from spark_jobs.formats.values import decimal_of_number, in_json, is_lost, of_text, typed, wire_type

_CORRUPT, _ENVELOPE, _KNOWN = (f"{LINEAGE}_{name}" for name in ("corrupt", "envelope", "known"))
_SCHEMA = "STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, name: STRING, " + (
    "parameters: MAP<STRING, STRING>>>>>>"
)
_CONVERTED = ("DATE", *TIMESTAMPS, *DECIMALS)
_BASE64 = r"^([A-Za-z0-9+/]{4}){0,15}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_SHOWN_MAX = 100  # characters of a value


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    value = F.col(f"{RECORD}.value")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    schema = _envelope(pipeline)
    known = records.withColumn(_KNOWN, json_problem(value))
    text = F.when(F.col(_KNOWN).isNull(), value.cast("string"))
    parsed = known.withColumn(_ENVELOPE, F.from_json(text, schema, options))
    return debezium.decoded(parsed, pipeline, _Json(pipeline))


class _Json(debezium.Envelope):
    """Wherever in the record it is: bare, or within `payload`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def undecodable(self) -> Expression:
        corrupt = F.col(_ENVELOPE).isNull() | F.col(f"{_ENVELOPE}.{_CORRUPT}").isNotNull()
        return F.coalesce(F.col(_KNOWN), F.when(corrupt, UNDECODABLE))

    def part(self, path: str) -> Expression:
        return F.coalesce(F.col(f"{_ENVELOPE}.payload.{path}"), F.col(f"{_ENVELOPE}.{path}"))

    def value(self, column: Column, image: Expression) -> Expression:
        return _converted(column, image[column.name], self._pipeline)

    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        raw = image[column.name]
        if column.word in _CONVERTED:
            said = F.substring(raw.cast("string"), 1, _SHOWN_MAX)
            lost = raw.isNotNull() & value.isNull()
            return F.when(lost, F.concat(F.lit(f"column {column.name} is no {column.type}: "), said))
        if _read_as(column, self._pipeline) == column.type:
            return None
        return F.when(is_lost(raw, value, column.type, in_json), f"column {column.name} is no {column.type}")


def _envelope(pipeline: Pipeline) -> str:
    """The envelope's schema, bare and within `payload`; of the source block only what is asked for."""
    columns, positions = pipeline.source.value_columns, pipeline.positions
    row = ", ".join(f"`{c.name}`: {_read_as(c, pipeline)}" for c in columns)
    of_source = [name.removeprefix("source.") for name in positions if name.startswith("source.")]
    block = ", ".join(f"`{name}`: {POSITIONS[f'source.{name}']}" for name in of_source)
    parts = {"before": f"STRUCT<{row}>", "after": f"STRUCT<{row}>", "op": "STRING"}
    parts |= {"source": f"STRUCT<{block}>"} if block else {}
    parts |= {name: POSITIONS[name] for name in positions if not name.startswith("source.")}
    bare = ", ".join(f"`{name}` {type_}" for name, type_ in parts.items())
    within = ", ".join(f"`{name}`: {type_}" for name, type_ in parts.items())
    schema = f", schema {_SCHEMA}" if any(column.word in _CONVERTED for column in columns) else ""
    return f"{bare}, payload STRUCT<{within}>{schema}, {_CORRUPT} STRING"


def _read_as(column: Column, pipeline: Pipeline) -> str:
    """The type by which a column is read. Of `precise` decimals it matters whether they are texts or numbers."""
    if column.word in DECIMALS and pipeline.source.debezium.decimals == "precise":
        return "VARIANT"
    return "STRING" if column.word in _CONVERTED else wire_type(column.type, in_json)


def _converted(column: Column, raw: Expression, pipeline: Pipeline) -> Expression:
    """A column's value as its declared type; null where that cannot be."""
    word, options = column.word, pipeline.source.debezium
    if word in DECIMALS:
        return of_text(raw, column.type) if options.decimals == "string" else _precise(column, raw)
    if word not in _CONVERTED:
        return typed(raw, column.type, in_json, options.timestamps)
    number = F.when(raw.rlike(r"^-?[0-9]{1,19}$"), raw)
    if word == "DATE":
        return F.coalesce(within_years(F.date_from_unix_date(number.try_cast("int"))), of_text(raw, word))
    units = F.create_map(*(F.lit(text) for pair in UNIT_BY_SCHEMA.items() for text in pair))
    unit = F.coalesce(units[_of_schema(column, "name")], F.lit(options.timestamps))
    return F.coalesce(moment(number.try_cast("bigint"), unit).cast(word), of_text(raw, word))


def _precise(column: Column, raw: Expression) -> Expression:
    """Numbers as they are; texts are the base64 of an unscaled two's complement integer, and decimals without a
    declared scale are an object of scale and value.

    Args:
        raw: a variant.
    """
    scale = F.coalesce(
        F.try_variant_get(raw, "$.scale", "int"),
        _of_schema(column, "parameters")["scale"].try_cast("int"),
        F.lit(scale_of(column.type)),
    )
    kind = F.schema_of_variant(raw)
    whole = F.when(kind == "STRING", F.try_variant_get(raw, "$", "string"))
    unscaled = F.coalesce(F.try_variant_get(raw, "$.value", "string"), whole)
    # With its padding, as Kafka Connect writes it: Spark would take `12` for base64, and make -41 of it.
    encoded = F.when(unscaled.rlike(_BASE64), unscaled)
    digits = F.hex(F.try_to_binary(encoded, F.lit("base64")))
    return F.coalesce(decimal_text(digits, scale).try_cast(column.type), decimal_of_number(raw, column.type))


def _of_schema(column: Column, attribute: str) -> Expression:
    """An attribute of the column in the schema that the record brings along; null without one."""
    fields = F.col(f"{_ENVELOPE}.schema.fields")
    of_row = F.filter(fields, lambda f: f["field"].isin("after", "before"))
    found = F.filter(F.get(of_row, F.lit(0))["fields"], lambda f: f["field"] == column.name)
    return F.get(found, F.lit(0))[attribute]
