"""Format `json`: a record's value is one JSON object, whose fields are the columns."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, field, no_names, of_plain_rows
from spark_jobs.formats.values import (
    Spoken,
    in_json,
    in_json_with_odd_numbers,
    is_lost,
    not_of_type,
    typed,
    wire_type,
)

_KNOWN, _CORRUPT, _LOST = (f"{LINEAGE}_{name}" for name in ("known", "corrupt", "lost"))
_WIRE, _ODD = f"{LINEAGE}_wire", f"{LINEAGE}_odd"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    value = F.col(f"{RECORD}.value")
    return of_texts(records, value.cast("string"), json_problem(value), pipeline)


def json_problem(bytes_: Column) -> Column:
    """Why bytes are not one JSON object, string; null: they are, or there are none. (`include/installation`:
    JsonProblem.java; Spark's parser takes several objects for the first, two equal names for the second.)"""
    return F.call_function("lakemark.json_problem", bytes_)


def of_texts(records: DataFrame, text: Column, known_problem: Column, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns, of their JSON texts.

    Args:
        known_problem: why there is no JSON object in a record that has a value, string; null: there is one.
    """
    known = records.withColumn(_KNOWN, known_problem)
    text = F.when(F.col(_KNOWN).isNull(), text)
    parsed = _parsed(known, text, pipeline)
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).when(F.col(_KNOWN).isNotNull(), F.col(_KNOWN))
    absent = _absent(text, pipeline.partial_columns)
    if pipeline.rescues:
        fields = F.from_json(text, "MAP<STRING, STRING>")
        rescued = _rescued(fields, [column.name for column in pipeline.source.value_columns])
        return of_plain_rows(parsed, problem, absent, rescued)
    return of_plain_rows(parsed, problem.otherwise(F.col(_LOST)), absent)


def _parsed(records: DataFrame, text: Column, pipeline: Pipeline) -> DataFrame:
    """Records with DECODED, and _LOST: why that is not all, string."""
    columns, unit = pipeline.source.value_columns, pipeline.source.timestamps

    def wire(text: Column, read_as: Spoken) -> Column:
        schema = ", ".join(f"`{c.name}` {wire_type(c.type, read_as)}" for c in columns)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        return F.from_json(text, f"{schema}, {_CORRUPT} STRING", options)

    def values(wire: str, read_as: Spoken) -> Column:
        return F.struct(*(typed(field(wire, c.name), c.type, read_as, unit).alias(c.name) for c in columns))

    def lost(wire: str, read_as: Spoken) -> Column:
        found = F.when(F.col(wire).isNull() | field(wire, _CORRUPT).isNotNull(), UNDECODABLE)
        for column in columns:
            raw, value = field(wire, column.name), field(DECODED, column.name)
            found = found.when(is_lost(raw, value, column.type, read_as), not_of_type(column, raw, unit))
        return found

    if all(wire_type(c.type, in_json) == wire_type(c.type, in_json_with_odd_numbers) for c in columns):
        read = records.withColumn(_WIRE, wire(text, in_json)).withColumn(DECODED, values(_WIRE, in_json))
        return read.withColumn(_LOST, lost(_WIRE, in_json))
    # Of nearly all texts Spark may read decimals itself.
    is_odd = F.call_function("lakemark.json_odd_number", text.cast("binary"))
    ways = {_WIRE: in_json, _ODD: in_json_with_odd_numbers}
    texts = {_WIRE: F.when(~is_odd, text), _ODD: F.when(is_odd, text)}
    read = records.select("*", *(wire(texts[name], read_as).alias(name) for name, read_as in ways.items()))
    is_odd = F.col(_ODD).isNotNull()
    read = read.withColumn(DECODED, F.when(is_odd, values(_ODD, ways[_ODD])).otherwise(values(_WIRE, ways[_WIRE])))
    return read.withColumn(_LOST, F.when(is_odd, lost(_ODD, ways[_ODD])).otherwise(lost(_WIRE, ways[_WIRE])))


def _rescued(fields: Column, declared: list[str]) -> Column:
    """JSON of the fields, as texts, that are not declared, or hold what is not of the declared type."""
    beyond = F.map_filter(fields, lambda name, text: ~name.isin(*declared))
    lost = (
        F.when(fields[name].isNotNull() & F.col(f"{DECODED}.`{name}`").isNull(), F.struct(F.lit(name), fields[name]))
        for name in declared
    )
    kept = F.map_concat(beyond, F.map_from_entries(F.array_compact(F.array(*lost))))
    return F.when(F.size(kept) > 0, F.to_json(kept))


def _absent(text: Column, partial: tuple[str, ...]) -> Column:
    """A field that is not there is another thing than one that is null."""
    if not partial:
        return no_names()
    return F.array_except(F.array(*map(F.lit, partial)), F.json_object_keys(text))
