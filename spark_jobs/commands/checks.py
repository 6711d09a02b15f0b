"""Judges the target itself, at one version, by the suite for tables."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.quality.evidence import Subject, record
from include.quality.judge import table_judge
from include.quality.verdict import verify_table
from include.settings import Settings
from spark_jobs.changes import quality
from spark_jobs.changes.suite_check import verify_suite
from spark_jobs.engine.failures import classed


@dataclass(frozen=True)
class TableCheck:
    """A check of a pipeline's target."""

    spark: SparkSession
    settings: Settings
    pipeline: Pipeline

    def run(self, version: int | None) -> JsonObject:
        """Judges the table's rows without tombstones. The verdict is recorded, whatever it is.

        Args:
            version: of the table; None: the newest one.

        Returns:
            checked (the pipeline), table_version, outcome, rules, broken (by rule: rows that break it), seconds.

        Raises:
            QualityGate: a rule whose policy is `fail` does not hold. SuiteError, TableDamaged: see there.
            TerminalError: there is no table, or it does not have this version. RetryableError: Spark does not answer.
        """
        try:
            return self._run(version)
        except Exception as error:
            name = self.pipeline.name
            where = f"{name}, checks of {self.pipeline.target.table}"
            raise classed(error, pipeline=name, where=where, phase="checks", may_have_landed=False) from error

    def _run(self, version: int | None) -> JsonObject:
        began = time.monotonic()
        judge, tables = table_judge(self.settings, self.pipeline), Tables.of(self.settings, self.pipeline)
        verify_suite(self.spark, judge, self.pipeline.columns)
        version = self._version(tables.target) if version is None else version
        columns = [spark_name(column.name) for column in self.pipeline.columns]
        table = self.spark.read.format("delta").option("versionAsOf", version).load(str(tables.target))
        rows = table.where(self.pipeline.seen_by_readers).select(*columns)
        is_row = F.monotonically_increasing_id() >= 0
        judged = rows.withColumn(quality.BROKEN, quality.broken(judge, F.lit(True), always=is_row))
        found = quality.judgement(self.spark, self.settings, judge, rows=judged, accepted=rows, broken=quality.BROKEN)
        record(tables.quality, Subject(self.pipeline.name, uuid.uuid4().hex, table_version=version), found)
        verify_table(f"{self.pipeline.target.table} version {version}", found)
        seconds = round(time.monotonic() - began, 1)
        return {"checked": self.pipeline.name, "table_version": version, **found.to_json(), "seconds": seconds}

    def _version(self, uri: LakeUri) -> int:
        log = TableLog.open(uri)
        if log is None:
            raise TerminalError(
                what="there is no table to check",
                where=self.pipeline.target.table,
                expected="a batch that has landed",
                found="none",
                action=f"run the pipeline first: `lakemark run {self.pipeline.name}`",
            )
        return log.version
