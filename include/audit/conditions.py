"""What the conditions of a pipeline file say of records: DuckDB computes it where that means the same, else Spark."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import duckdb

from include.audit.report import NotRecomputed
from include.audit.spark_sql import Types, translated
from include.jobs.runner import run_answers
from include.lake.sql import as_pattern, spark_name, sql_name, sql_text
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.protocol.errors import LakemarkError
from include.scratch import scratch_folder
from include.settings import Settings

ROW = f"{LINEAGE}_row"  # column that counts the rows which Spark is asked about

_FILE_BYTES = 64 << 20  # of the rows that Spark is asked about; a file is sent as a whole
_LEFT_SECONDS = 6 * 3600.0  # no audit asks Spark for so long


@dataclass(frozen=True)
class Conditions:
    """The conditions of a pipeline, asked of all its records."""

    database: duckdb.DuckDBPyConnection
    settings: Settings
    pipeline: Pipeline

    def answered(self, rows: str, columns: Sequence[Column], asked: Mapping[str, str]) -> str:
        """A query with the rows of another one, and a column for every condition: whether it is true (never null).

        Args:
            rows: a query without side effects. columns: those of its columns that a condition may name.
            asked: conditions in Spark's SQL, by the names of their columns.

        Raises:
            NotRecomputed: only Spark can compute a condition, and it does not.
        """
        if not asked:
            return rows
        types = {column.name.lower(): column.type for column in columns}
        ours = {name: sql for name, text in asked.items() if (sql := self._as_duckdb(rows, text, types)) is not None}
        theirs = {name: text for name, text in asked.items() if name not in ours}
        said = ", ".join(f"coalesce({sql}, false) AS {name}" for name, sql in ours.items())
        rows = f"SELECT *, {said} FROM ({rows})" if ours else rows
        return self._by_spark(rows, columns, theirs) if theirs else rows

    def _as_duckdb(self, rows: str, text: str, types: Types) -> str | None:
        """The condition for DuckDB; None if it may mean something else there, or fails on a record."""
        try:
            sql = translated(text, "the condition", types)
            self.database.execute(f"SELECT count(*) FILTER ({sql}) FROM ({rows})")
        except (NotRecomputed, duckdb.Error):
            return None
        return sql

    def _by_spark(self, rows: str, columns: Sequence[Column], asked: Mapping[str, str]) -> str:
        database, names = self.database, [column.name for column in columns]
        numbered, answers = (f"_{part}_{uuid.uuid4().hex}" for part in ("numbered", "answers"))
        database.execute(f"CREATE TABLE {numbered} AS SELECT row_number() OVER () AS {ROW}, * FROM ({rows})")
        with scratch_folder() as here, _folder(self.settings) as folder:
            files, rows_here, answers_here = files_at(folder), here / "rows", here / "answers"
            given = ", ".join([ROW, *map(sql_name, names)])
            several = f"(FORMAT parquet, FILE_SIZE_BYTES {_FILE_BYTES})"
            database.execute(f"COPY (SELECT {given} FROM {numbered}) TO {sql_text(str(rows_here))} {several}")
            for file in rows_here.iterdir():
                files.create(folder / f"rows/{file.name}", file.read_bytes())
            schema = ", ".join(f"{spark_name(c.name)} {c.type}" for c in (Column(ROW, "BIGINT"), *columns))
            question = {"schema": schema, "conditions": dict(asked)}
            files.create(folder / "asked.json", json.dumps(question).encode())
            try:
                run_answers(self.settings, self.pipeline.name, folder)
            except LakemarkError as error:
                texts = ", ".join(f"`{text}`" for text in asked.values())
                raise NotRecomputed(f"only Spark computes {texts}, and it does not: {error}") from error
            answers_here.mkdir()
            for found in files.list(folder / "answers"):
                with files.open(folder / "answers" / found.name) as answer:
                    (answers_here / found.name).write_bytes(answer.read())
            read = f"SELECT * FROM read_parquet({sql_text(f'{as_pattern(str(answers_here))}/*.parquet')})"
            database.execute(f"CREATE TABLE {answers} AS {read}")
        said = ", ".join(f"coalesce(a.{name} = 'true', false) AS {name}" for name in asked)
        return f"SELECT r.* EXCLUDE ({ROW}), {said} FROM {numbered} r JOIN {answers} a USING ({ROW})"


@contextmanager
def _folder(settings: Settings) -> Iterator[LakeUri]:
    """A new folder of the lake, which Spark reaches, too. It is gone at the end."""
    audits = settings.lake / "_lakemark/audits"
    files = files_at(audits)
    left = {
        file.name.partition("/")[0] for file in files.list(audits) if time.time() - file.modified_at > _LEFT_SECONDS
    }
    for name in left:  # by an audit that was killed
        with suppress(OSError):
            files.delete(audits / name)
    folder = audits / uuid.uuid4().hex
    files.make_folder(folder / "rows")
    try:
        yield folder
    finally:
        with suppress(FileNotFoundError):  # nothing was written
            files.delete(folder)
