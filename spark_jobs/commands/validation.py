"""Asks Spark itself whether it takes what a pipeline file says: its columns, conditions and transform. Reads no record.

`lakemark validate` knows Spark's SQL only as far as a parser without Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.control.coordinator import Coordinator
from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, RESCUED, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.protocol.batch import Batch
from include.protocol.errors import Problem, SuiteError, TerminalError
from include.protocol.ranges import OffsetRange
from include.quality.judge import judge_of, table_judge
from include.settings import Settings
from spark_jobs.changes.suite_check import verify_suite
from spark_jobs.changes.transform import transformation
from spark_jobs.engine.failures import classed, text_of


def problems_for_spark(spark: SparkSession, settings: Settings, pipeline: Pipeline) -> list[Problem]:
    """What Spark refuses of a valid pipeline file.

    Raises:
        RetryableError: Spark does not answer.
    """
    try:
        return [*_problems(spark, settings, pipeline)]
    except Exception as error:
        where = f"{pipeline.name}, validation"
        raise classed(error, pipeline=pipeline.name, where=where, phase="validation", may_have_landed=False) from error


def _problems(spark: SparkSession, settings: Settings, pipeline: Pipeline) -> Iterator[Problem]:
    rescued = [Column(RESCUED, "STRING")] if pipeline.rescues and pipeline.transform is None else []
    before = _refused(lambda: _empty(spark, [*pipeline.source.columns, *rescued]), "source.schema")
    yield from before
    after = _refused(lambda: _empty(spark, pipeline.columns), pipeline.schema_field)
    yield from after
    if before or after:
        return
    source, target = _empty(spark, [*pipeline.source.columns, *rescued]), _empty(spark, pipeline.columns)
    yield from _refused_condition("source.filter", source, pipeline.source.filter)
    yield from _refused_condition("change.delete_when", target, pipeline.change.delete_when)
    for n, route in enumerate(pipeline.target.routes):
        yield from _refused_condition(f"target.routes.{n}.when", target, route.when)
    yield from _refused_suites(spark, settings, pipeline)
    if pipeline.transform is not None:
        yield from _refused_transform(spark, settings, pipeline, source)


def _empty(spark: SparkSession, columns: Sequence[Column]) -> DataFrame:
    frame = spark.createDataFrame([], ", ".join(f"{spark_name(column.name)} {column.type}" for column in columns))
    assert frame.schema is not None, "to ask for it makes Spark look at it"
    return frame


def _refused_condition(field: str, frame: DataFrame, condition: str | None) -> list[Problem]:
    if condition is None:
        return []
    types: list[str] = []

    def ask() -> None:  # a filter would not do: its schema is known without asking
        types.extend(f.dataType.simpleString() for f in frame.select(F.expr(condition).alias("answer")).schema.fields)

    refused = _refused(ask, field)
    if types and types != ["boolean"]:
        refused.append(Problem(field, "a condition, which is true or false", f"{', '.join(types)}: {condition!r}"))
    return refused


def _refused_transform(spark: SparkSession, settings: Settings, pipeline: Pipeline, source: DataFrame) -> list[Problem]:
    changes = source.withColumn(LINEAGE, F.struct(F.lit(1).alias("opaque")))
    field = "transform.file"
    try:
        pins = Coordinator(settings, pipeline).pins()
        batch = Batch(
            pipeline.name,
            generation=1,
            batch_id=0,
            ranges=(OffsetRange("none", 0, 0, 1),),
            topic_ids={"none": "none"},
            cluster_id="none",
            pins=pins,
        )
        transform = transformation(spark, settings, pipeline, batch)
        assert transform is not None, "the file names one"
        return _refused(lambda: transform(changes).schema, field)
    except TerminalError as error:
        return [Problem(field, error.expected, f"{error.found} ({error.where})")]


def _refused_suites(spark: SparkSession, settings: Settings, pipeline: Pipeline) -> Iterator[Problem]:
    suites = {"quality.suite": judge_of, "quality.table": table_judge if pipeline.quality.table else None}
    for field, load in suites.items():
        try:
            judge = load and load(settings, pipeline)
            if judge:
                verify_suite(spark, judge, pipeline.columns)
        except SuiteError as error:
            yield Problem(field, error.expected, f"{error.found} ({error.where})")


def _refused(ask: Callable[[], object], field: str) -> list[Problem]:
    """What Spark says, if it refuses."""
    try:
        ask()
    except AnalysisException as error:
        found = text_of(error).split("== SQL ==")[0]
        return [Problem(field, "what Spark takes", " ".join(found.split())[:500])]
    return []
