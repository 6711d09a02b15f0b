"""Converts values of an Avro schema to declared types: by name, and only where nothing is guessed and nothing is lost.

| declared | what fits |
| --- | --- |
| whole numbers | numbers that are whole and within the range |
| DECIMAL, FLOAT, DOUBLE | numbers; a decimal is rounded to its declared places |
| TIMESTAMP | timestamps; numbers whose unit the schema or the pipeline file names; no times of day, no days |
| DATE | dates; bare numbers, which count days; no times, no timestamps |
| STRING | texts, enums, bytes that are UTF-8, and any other simple value |
| STRUCT, ARRAY, MAP | records, by the names of their fields; arrays; maps |
| anything | a union, if the member that is there fits |
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.pipeline_file import Pipeline, schema_ddl
from include.pipeline_file.debezium import UNIT_BY_SCHEMA, counts_other, is_date
from include.pipeline_file.schema_ddl import DECIMALS, FLOATS, TIMESTAMPS, WHOLE, fields_of, nested, split, word_of
from include.sources.avro_schema import AvroField
from spark_jobs.formats.functions import decimal_text
from spark_jobs.formats.moments import moment, within_years
from spark_jobs.formats.values import as_float, of_text

_UNIT_BY_LOGICAL = {"timestamp-nanos": "nanos", "local-timestamp-nanos": "nanos"}


def typed(raw: Column, avro: AvroField, column: schema_ddl.Column, pipeline: Pipeline) -> Column:
    """Converts a value, as Spark has read it by its schema, to the type of a column; null where it does not fit."""
    none = F.lit(None).cast(column.type)
    if avro.kind == "union":
        options = [typed(raw[f"member{n}"], option, column, pipeline) for n, option in enumerate(avro.options)]
        return F.coalesce(*options)
    match nested(column.type):
        case ("STRUCT", inner) if avro.kind == "record":
            known = avro.fields
            values = (
                typed(raw[f.name], known[f.name], f, pipeline) if f.name in known else F.lit(None).cast(f.type)
                for f in fields_of(inner)
            )
            names = (f.name for f in fields_of(inner))
            return F.when(raw.isNotNull(), F.struct(*(v.alias(name) for v, name in zip(values, names, strict=True))))
        case ("ARRAY", inner) if avro.kind == "array":
            return F.transform(raw, lambda item: typed(item, avro.inner, column._replace(type=inner), pipeline))
        case ("MAP", inner) if avro.kind == "map" and word_of(split(inner)[0]) == "STRING":
            of_value = column._replace(type=split(inner)[1])
            has_texts = ~F.exists(F.map_keys(raw), lambda key: ~F.is_valid_utf8(key))
            return F.when(has_texts, F.transform_values(raw, lambda _, v: typed(v, avro.inner, of_value, pipeline)))
        case None:
            found = _simple(raw, avro, column, pipeline)
            return none if found is None else found.cast(column.type)
        case _:
            return none


def is_lost(raw: Column, value: Column, avro: AvroField, type_: str) -> Column:
    """Whether `typed` has made null from anything that is not null."""
    whole = raw.isNotNull() & value.isNull()
    if avro.kind == "union":  # one of its members is there, and may have lost a part
        parts = (is_lost(raw[f"member{n}"], value, option, type_) for n, option in enumerate(avro.options))
        return F.array_contains(F.array(whole, *parts), True)
    match nested(type_):
        case ("STRUCT", inner) if avro.kind == "record":
            fields = [f for f in fields_of(inner) if f.name in avro.fields]
            parts = (is_lost(raw[f.name], value[f.name], avro.fields[f.name], f.type) for f in fields)
            return F.array_contains(F.array(whole, *parts), True)
        case ("ARRAY", inner) if avro.kind == "array":
            lost = F.zip_with(raw, value, lambda one, other: is_lost(one, other, avro.inner, inner))
        case ("MAP", inner) if avro.kind == "map":
            of_value = split(inner)[1]
            values = F.map_values(raw), F.map_values(value)
            lost = F.zip_with(*values, lambda one, other: is_lost(one, other, avro.inner, of_value))
        case _:
            return whole
    return whole | F.coalesce(F.exists(lost, lambda found: found), F.lit(False))


def _simple(raw: Column, avro: AvroField, column: schema_ddl.Column, pipeline: Pipeline) -> Column | None:
    """A simple value as the column's type; None: a value of that schema never fits that type."""
    word = column.word
    match avro.kind:
        case "string" | "enum":
            return of_text(raw, column, pipeline.source.timestamps)
        case "bytes" | "fixed":
            return {"BINARY": raw, "STRING": F.try_validate_utf8(raw.cast("string"))}.get(word)
        case "record" if word in DECIMALS and {"scale", "value"} <= set(avro.fields):  # Kafka Connect's own
            return of_text(decimal_text(raw["value"], raw["scale"]), column)
        case "boolean":
            return raw if word in ("BOOLEAN", "STRING") else None
        case "int" | "long":
            return _of_whole(raw, avro, column, pipeline)
        case "float" | "double" | "decimal":
            return _of_number(raw, column)
        case "date":
            return within_years(raw) if word in ("DATE", *TIMESTAMPS) else raw if word == "STRING" else None
        case kind if "timestamp-" in kind:
            return within_years(raw) if word in TIMESTAMPS else raw if word == "STRING" else None
        case _:
            return None


def _of_whole(raw: Column, avro: AvroField, column: schema_ddl.Column, pipeline: Pipeline) -> Column | None:
    word = column.word
    if word in (*WHOLE, *DECIMALS):
        return raw.try_cast(column.type)
    known_unit = UNIT_BY_SCHEMA.get(avro.connect_name or "") or _UNIT_BY_LOGICAL.get(avro.logical_type or "")
    if word == "DATE":
        is_other = known_unit or counts_other(avro.connect_name, avro.logical_type)
        is_days = not is_other or is_date(avro.connect_name)
        return within_years(F.date_from_unix_date(raw.try_cast("int"))) if is_days else None
    if word in TIMESTAMPS:
        declared = pipeline.source.debezium.timestamps if pipeline.source.is_debezium else pipeline.source.timestamps
        unit = known_unit or (None if counts_other(avro.connect_name, avro.logical_type) else declared)
        count = F.when(raw % 1_000 == 0, raw) if column.exact and unit == "nanos" else raw
        return moment(count.cast("bigint"), F.lit(unit)) if unit else None
    if word in FLOATS:
        found = raw.cast(column.type)
        # A number that rounds up to 2^63 is cast back to the largest BIGINT.
        return F.when((found.try_cast("bigint") == raw) & (raw != 2**63 - 1), found)
    if word == "BOOLEAN":
        return F.when(raw.isin(0, 1), raw == 1)
    return raw if word == "STRING" else None


def _of_number(raw: Column, column: schema_ddl.Column) -> Column | None:
    word = column.word
    if word in WHOLE:
        whole = raw.try_cast(column.type)
        return F.when(whole == raw, whole)
    if word in ("FLOAT", "REAL"):
        return as_float(raw.cast("double"))
    if word in DECIMALS:
        return of_text(raw.cast("string"), column) if column.exact else raw.try_cast(column.type)
    return raw if word in ("DOUBLE", "STRING") else None
