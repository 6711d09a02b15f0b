"""Format `json`: a record's value is one JSON object, whose fields are the columns."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.formats.contract import DECODED, NO_VALUE, RECORD, UNDECODABLE, no_names, of_plain_rows

_CORRUPT = f"{LINEAGE}_corrupt"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    return of_texts(records, F.col(f"{RECORD}.value").cast("string"), None, pipeline)


def of_texts(records: DataFrame, text: Column, known_problem: Column | None, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns, of their JSON texts.

    Args:
        known_problem: why there is no text of a record that has a value, string; null: there is one.
    """
    schema = f"{pipeline.source.schema_}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = records.withColumn(DECODED, F.from_json(text, schema, options))
    undecodable = F.col(DECODED).isNull() | F.col(f"{DECODED}.{_CORRUPT}").isNotNull()
    rescued = None
    if pipeline.rescues:
        fields = F.from_json(text, "MAP<STRING, STRING>")
        undecodable, rescued = fields.isNull(), _rescued(fields, [c.name for c in pipeline.source.value_columns])
    problem = F.when(F.col(f"{RECORD}.value").isNull(), NO_VALUE)
    if known_problem is not None:
        problem = problem.when(known_problem.isNotNull(), known_problem)
    problem = problem.when(undecodable, UNDECODABLE)
    return of_plain_rows(parsed, problem, _absent(text, pipeline.partial_columns), rescued)


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
