"""Answers an audit's question: which conditions of a pipeline file are true for which records?

The audit decodes records without Spark. Only what a condition in Spark's SQL means, Spark knows best.
"""

from __future__ import annotations

import json
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE
from spark_jobs.changes.conditions import asked
from spark_jobs.engine.failures import classed

_ROW = f"{LINEAGE}_row"  # as `include.audit.conditions` names it


def answer(spark: SparkSession, pipeline: str, folder: LakeUri) -> None:
    """Writes the answers beside the question: `answers/*.parquet`, `_ROW` and a string per condition (see `asked`).

    Args:
        folder: a folder of the lake, with `asked.json` (`schema` of the rows in Spark's DDL; `conditions`, texts by
            name) and `rows/*.parquet`.

    Raises:
        TerminalError: Spark does not take a condition. RetryableError: Spark does not answer.
    """
    with files_at(folder).open(folder / "asked.json") as file:
        question = json.loads(file.read())
    try:
        rows = (
            spark.read.schema(question["schema"])
            .option("datetimeRebaseMode", "CORRECTED")
            .parquet(_no_pattern((folder / "rows").qualified))
        )
        always = F.col(_ROW).isNotNull()
        answers = (asked(text, always).alias(name) for name, text in question["conditions"].items())
        rows.select(_ROW, *answers).write.parquet((folder / "answers").qualified)
    except Exception as error:
        where = f"{pipeline}, the conditions of its file"
        raise classed(error, pipeline=pipeline, where=where, phase="audit", may_have_landed=False) from error


def _no_pattern(path: str) -> str:
    """A path for a reader that takes some characters for patterns."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
