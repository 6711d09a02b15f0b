"""Runs the transform: the user's SQL or Python between decoding and judging."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from pyspark.errors import AnalysisException, PySparkException, QueryContextType, utils
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.lake.data_files import lost_file
from include.lake.sql import spark_name
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.tables import table_uri
from include.pipeline_file.transform import CHANGES, Transform
from include.pipeline_file.transform_file import read_transform, transform_error, transform_path
from include.protocol.batch import Batch, Pin
from include.protocol.errors import LakemarkError, TableDamaged, TransformError
from include.settings import Settings
from spark_jobs.engine.failures import is_of_rows, kind_of, text_of
from spark_jobs.formats.values import exactly

_LINE = re.compile(r"line (\d+),? pos")


class Transformation:
    """The transform of one batch. It is called with the decoded changes.

    Args:
        batch: its pins name the versions of the reference tables to read.
    """

    def __init__(self, spark: SparkSession, settings: Settings, pipeline: Pipeline, batch: Batch) -> None:
        assert pipeline.transform is not None, "asked for by the caller"
        self._spark, self._settings, self._pipeline, self._batch = spark, settings, pipeline, batch
        self._transform: Transform = pipeline.transform
        self._path, self._text = transform_path(settings, pipeline), read_transform(settings, pipeline)

    def __call__(self, changes: DataFrame) -> DataFrame:
        """Applies the transform. Columns of the result: those that the pipeline file declares, and `_lakemark`.

        Args:
            changes: the source's columns and `_lakemark`, which is opaque.

        Raises:
            TransformError: it names the pipeline, the file and the line.
        """
        try:
            made = self._python(changes) if self._path.suffix == ".py" else self._sql(changes)
            found = made.columns
        except Exception as error:
            if self._is_of_code(error):
                raise self.explained(error) from error
            raise
        missing = [name for name in (*(c.name for c in self._transform.columns), LINEAGE) if name not in found]
        if missing:
            what = f"columns {', '.join(missing)} among what comes out"
            raise self._error(str(self._path), what, ", ".join(found) or "none")
        types = {field.name: field.dataType.simpleString() for field in made.schema.fields}
        keys = self._pipeline.change.all_keys

        def as_declared(column: Column) -> Expression:
            value = F.col(spark_name(column.name))
            if column.name not in keys:
                return value.cast(column.type)
            return exactly(value, types[column.name], column, self._pipeline.source.timestamps)

        return made.select(*(as_declared(c).alias(c.name) for c in self._transform.columns), LINEAGE)

    def explained(self, error: Exception) -> TransformError:
        """The error for what went wrong in the user's code, when Spark planned it or when it ran."""
        line = self._line(error)
        where = str(self._path) if line is None else f"{self._path}, line {line}"
        expected, found = "a transform that Spark can run", f"{type(error).__name__}: {text_of(error)[:1500]}"
        if isinstance(error, AnalysisException) or not is_of_rows(error):
            return self._error(where, expected, found)
        # The text may quote a record.
        return transform_error(self._pipeline, where, expected, kind_of(error), evidence=found)

    def _line(self, error: Exception) -> int | None:
        """The line. Spark names it for SQL and for the call that made a column. Python names it for its own errors."""
        if self._path.suffix == ".sql":
            told = _LINE.search(str(error))
            return int(told[1]) if told else None
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self._path)]
        for context in (error.getQueryContext() or ()) if isinstance(error, PySparkException) else ():
            if context.contextType() == QueryContextType.DataFrame:
                file, _, number = context.callSite().rpartition(":")
                lines += [int(number)] if file == str(self._path) and number.isdecimal() else []
        return lines[-1] if lines else None

    def _is_of_code(self, error: Exception) -> bool:
        """Whether the user's code is the cause. (Another cause is, for instance, a server that went away.)"""
        if isinstance(error, PySparkException):
            return isinstance(error, AnalysisException)
        return not isinstance(error, LakemarkError) and not type(error).__module__.startswith("grpc")

    def _sql(self, changes: DataFrame) -> DataFrame:
        changes.createOrReplaceTempView(CHANGES)
        for name, table in self._references().items():
            table.createOrReplaceTempView(name)
        return self._spark.sql(self._text.strip().rstrip(";"))

    def _python(self, changes: DataFrame) -> DataFrame:
        with _lines_kept():
            made = self._function()(changes, self._references())
        if not isinstance(made, type(changes)):
            raise self._error(str(self._path), "a DataFrame from transform(changes, references)", type(made).__name__)
        return made

    def _function(self) -> Callable[[DataFrame, Mapping[str, DataFrame]], DataFrame]:
        module = ModuleType(f"lakemark_transform_{self._path.stem}")
        module.__file__ = str(self._path)
        exec(compile(self._text, str(self._path), "exec"), module.__dict__)
        function = getattr(module, "transform", None)
        if not callable(function):
            raise self._error(str(self._path), "a function transform(changes, references)", "none of that name")
        return function

    def _references(self) -> dict[str, DataFrame]:
        """The reference tables by name, as they were when the batch was planned."""
        found: dict[str, DataFrame] = {}
        for name, table in self._transform.references.items():
            pin, uri = self._batch.pins.get(name), table_uri(self._settings, table)
            if pin is None:
                raise self._error(
                    f"transform.references.{name}",
                    "a version of it, recorded when the batch was planned",
                    f"{self._batch} was planned before the file named it: name it once the batch has landed",
                )
            self._verify_pinned(name, pin, uri)
            found[name] = self._spark.read.format("delta").option("versionAsOf", pin.version).load(str(uri))
        return found

    def _verify_pinned(self, name: str, pin: Pin, uri: LakeUri) -> None:
        """Checks that a reference table is still the one of the plan, and holds that version: else attempts at a batch
        would make different rows (I1)."""
        log = TableLog.open(uri)
        is_same = log is not None and pin.table_id in (None, log.table_id)
        is_newest = log is not None and pin.version == log.version  # then nobody has taken its files away
        lost = lost_file(uri, pin.version) if is_same and not is_newest else None
        if is_same and lost is None:
            return
        raise TableDamaged(
            what="a reference table of the transform is not as it was when the batch was planned",
            where=f"{self._batch}, transform.references.{name}, {uri}",
            expected=f"version {pin.version}" + (f" of table id {pin.table_id}" if pin.table_id else ""),
            found=f"no {lost}" if lost else f"table id {log.table_id}" if log is not None else "no table",
            action="bring it back; or, to compute the batch with the table as it is now, "
            f"`lakemark reset {self._batch.pipeline} --reason ...`",
        )

    def _error(self, where: str, expected: str, found: str) -> TransformError:
        return transform_error(self._pipeline, where, expected, found)


@contextmanager
def _lines_kept() -> Iterator[None]:
    """In the block, columns know the line that makes them, which an error then names. Everywhere else that is off
    (`spark.python.sql.dataFrameDebugging.enabled`), since it costs several calls of the JVM for every function. PySpark
    reads that setting once in a process, so this changes what it has kept."""
    before = utils.is_debugging_enabled()
    utils._enable_debugging_cache = True  # type: ignore[assignment]  # it begins as None
    try:
        yield
    finally:
        utils._enable_debugging_cache = before  # type: ignore[assignment]


def transformation(spark: SparkSession, settings: Settings, pipeline: Pipeline, batch: Batch) -> Transformation | None:
    """The batch's transform; None if the pipeline has none."""
    return Transformation(spark, settings, pipeline, batch) if pipeline.transform is not None else None
