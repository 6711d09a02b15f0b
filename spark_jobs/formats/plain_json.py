"""Format `json`: a record's value is one JSON object, whose fields are the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import Column as SchemaColumn
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, field, no_names, of_plain_rows
from spark_jobs.formats.functions import json_row, struct_of
from spark_jobs.formats.values import none_of

_READ = f"{LINEAGE}_read"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    return of_json(records, F.col(f"{RECORD}.value"), None, pipeline)


def of_json(records: DataFrame, json: Column, known_problem: Column | None, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns, from their JSON, binary.

    Args:
        known_problem: why a record that has a value has no JSON, string; null: it has JSON; None: all records have.
    """
    columns = pipeline.value_columns
    read = records.withColumn(_READ, json_row(json, struct_of(columns), pipeline.source.timestamps))
    read = read.withColumn(DECODED, F.col(f"{_READ}.row"))
    problems = [] if known_problem is None else [known_problem]
    fields = json_row(json, "MAP<STRING, STRING>")["row"]
    lost = [F.col(f"{_READ}.lost")] if not pipeline.rescues else list(_lost(fields, columns, pipeline))
    problems += [F.col(f"{_READ}.problem"), *lost]
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE).otherwise(F.coalesce(*problems))
    rescued = _rescued(fields, [column.name for column in columns]) if pipeline.rescues else None
    return of_plain_rows(read, problem, _absent(fields, pipeline.partial_columns), rescued)


def _lost(fields: Column, columns: Iterable[SchemaColumn], pipeline: Pipeline) -> Iterator[Column]:
    """Why a record is set aside although lost values are rescued, strings; null: it is not."""
    deciding = pipeline.deciding_columns
    for column in columns:
        if column.name in deciding:
            yield F.when(_is_lost(fields, column.name), none_of(column))


def _is_lost(fields: Column, name: str) -> Column:
    return fields[name].isNotNull() & field(DECODED, name).isNull()


def _rescued(fields: Column, declared: list[str]) -> Column:
    """JSON of the fields, as texts, that are not declared or do not fit their declared type."""
    beyond = F.map_filter(fields, lambda name, text: ~name.isin(*declared))
    lost = (F.when(_is_lost(fields, name), F.struct(F.lit(name), fields[name])) for name in declared)
    kept = F.map_concat(beyond, F.map_from_entries(F.array_compact(F.array(*lost))))
    return F.when(F.size(kept) > 0, F.to_json(kept))


def _absent(fields: Column, partial: tuple[str, ...]) -> Column:
    """The partial columns that a record leaves out. A field that is missing differs from one that is null."""
    if not partial:
        return no_names()
    return F.array_except(F.array(*map(F.lit, partial)), F.map_keys(fields))
