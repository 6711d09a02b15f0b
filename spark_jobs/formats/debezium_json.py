"""Format `debezium-json`: Debezium's envelope, with or without its schema, as Kafka Connect's JSON converter writes it.

Times, dates and decimals come as numbers and encoded bytes; what these mean says the schema where a record brings it
along, else the pipeline file.
"""

from __future__ import annotations

import re

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.debezium import POSITIONS, UNIT_BY_SCHEMA
from include.pipeline_file import LINEAGE, Pipeline
from include.schema_ddl import Column
from spark_jobs.formats import debezium
from spark_jobs.formats.contract import RECORD, UNDECODABLE
from spark_jobs.formats.decimals import decimal_text
from spark_jobs.formats.moments import moment

_CORRUPT, _ENVELOPE = f"{LINEAGE}_corrupt", f"{LINEAGE}_envelope"
_SCHEMA = "STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<STRUCT<field: STRING, name: STRING, " + (
    "parameters: MAP<STRING, STRING>>>>>>"
)
_CONVERTED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DEC", "DECIMAL", "NUMERIC")


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    value = F.col(f"{RECORD}.value")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    schema = _envelope(pipeline.source.value_columns, pipeline.positions)
    parsed = records.withColumn(_ENVELOPE, F.from_json(value.cast("string"), schema, options))
    return debezium.decoded(parsed, pipeline, _Json(pipeline))


class _Json(debezium.Envelope):
    """Wherever in the record it is: bare, or within `payload`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def undecodable(self) -> Expression:
        return F.when(F.col(_ENVELOPE).isNull() | F.col(f"{_ENVELOPE}.{_CORRUPT}").isNotNull(), UNDECODABLE)

    def part(self, path: str) -> Expression:
        return F.coalesce(F.col(f"{_ENVELOPE}.payload.{path}"), F.col(f"{_ENVELOPE}.{path}"))

    def value(self, column: Column, image: Expression) -> Expression:
        return _converted(column, image[column.name], self._pipeline)

    def problem(self, column: Column, image: Expression, value: Expression) -> Expression | None:
        if column.word not in _CONVERTED:
            return None
        raw = image[column.name]
        lost = raw.isNotNull() & value.isNull()
        return F.when(lost, F.concat(F.lit(f"column {column.name} is no {column.type}: "), raw))


def _envelope(columns: tuple[Column, ...], positions: tuple[str, ...]) -> str:
    """The envelope's schema, bare and within `payload`; of the source block only what is asked for."""
    row = ", ".join(f"`{c.name}`: {'STRING' if c.word in _CONVERTED else c.type}" for c in columns)
    of_source = [name.removeprefix("source.") for name in positions if name.startswith("source.")]
    block = ", ".join(f"`{name}`: {POSITIONS[f'source.{name}']}" for name in of_source)
    parts = {"before": f"STRUCT<{row}>", "after": f"STRUCT<{row}>", "op": "STRING"}
    parts |= {"source": f"STRUCT<{block}>"} if block else {}
    parts |= {name: POSITIONS[name] for name in positions if not name.startswith("source.")}
    bare = ", ".join(f"`{name}` {type_}" for name, type_ in parts.items())
    within = ", ".join(f"`{name}`: {type_}" for name, type_ in parts.items())
    schema = f", schema {_SCHEMA}" if any(column.word in _CONVERTED for column in columns) else ""
    return f"{bare}, payload STRUCT<{within}>{schema}, {_CORRUPT} STRING"


def _converted(column: Column, raw: Expression, pipeline: Pipeline) -> Expression:
    """A column's value as its declared type; null where that cannot be."""
    word, options = column.word, pipeline.source.debezium
    if word not in _CONVERTED:
        return raw
    number = F.when(raw.rlike(r"^-?[0-9]+$"), raw.cast("string"))
    if word == "DATE":
        return F.coalesce(F.date_from_unix_date(number.try_cast("int")), raw.try_cast("date"))
    if word.startswith("TIMESTAMP"):
        units = F.create_map(*(F.lit(text) for pair in UNIT_BY_SCHEMA.items() for text in pair))
        unit = F.coalesce(units[_of_schema(column, "name")], F.lit(options.timestamps))
        return F.coalesce(moment(number.try_cast("bigint"), unit).cast(word), raw.try_cast(word))
    return _decimal(column, raw, options.decimals)


def _decimal(column: Column, raw: Expression, handling: str) -> Expression:
    """Numbers and texts as they are; `precise` ones are the base64 of an unscaled two's complement integer, those
    without a declared scale are an object of scale and value."""
    if handling == "string":
        return raw.try_cast(column.type)
    declared = re.search(r",\s*(\d+)", column.type)
    scale = F.coalesce(
        F.get_json_object(raw, "$.scale").try_cast("int"),
        _of_schema(column, "parameters")["scale"].try_cast("int"),
        F.lit(int(declared[1]) if declared else 0),
    )
    unscaled = F.coalesce(F.get_json_object(raw, "$.value"), raw)
    digits = F.hex(F.try_to_binary(unscaled, F.lit("base64")))
    return decimal_text(digits, scale).try_cast(column.type)


def _of_schema(column: Column, attribute: str) -> Expression:
    """An attribute of the column in the schema that the record brings along; null without one."""
    fields = F.col(f"{_ENVELOPE}.schema.fields")
    of_row = F.filter(fields, lambda f: f["field"].isin("after", "before"))
    found = F.filter(F.get(of_row, F.lit(0))["fields"], lambda f: f["field"] == column.name)
    return F.get(found, F.lit(0))[attribute]
