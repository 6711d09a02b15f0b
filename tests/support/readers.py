"""Everything that a table shows, as four readers see it. Lakemark's code reads no file here; it only brings the rows
that Spark has read to this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from functools import partial
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from spark_jobs.engine.rows import collected

Rows = list[dict[str, Any]]


def opened(table: object, version: int | None = None) -> DeltaTable:
    """Args: table: its path, or its URI on the store that the process's environment names."""
    return DeltaTable(str(table), version, storage_options=options_of(table))


def options_of(table: object) -> dict[str, str] | None:
    """What deltalake has to know of a table's store."""
    if not str(table).startswith("s3://"):
        return None
    login = ConfigParser()
    login.read(os.environ["AWS_SHARED_CREDENTIALS_FILE"])
    store = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL_S3"], "aws_region": "us-east-1", "aws_allow_http": "true"}
    return {**store, **login["default"]}


def by_deltalake(path: str) -> Rows:
    query = QueryBuilder().register("t", opened(path)).execute("select * from t")
    return pa.table(query.read_all()).to_pylist()


def by_duckdb(path: str) -> Rows:
    """From the files that the log names, with the deletion vectors as deltalake reads them."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    read = "SELECT * FROM read_parquet($file)"
    return _from_files(path, lambda file: database.sql(read, params={"file": file}).to_arrow_table())


def by_pyarrow(path: str) -> Rows:
    """As `by_duckdb`."""
    return _from_files(path, lambda file: pq.ParquetFile(file).read())


def by_spark(spark: SparkSession, path: str) -> Rows:
    return collected(spark.read.format("delta").load(path)).to_pylist()


def all_readers(spark: SparkSession) -> Mapping[str, Callable[[str], Rows]]:
    of_spark = partial(by_spark, spark)
    return {"deltalake": by_deltalake, "DuckDB": by_duckdb, "pyarrow": by_pyarrow, "Spark": of_spark}


def _from_files(path: str, read: Callable[[str], pa.Table]) -> Rows:
    return [row for file, vector in _files(path) for row in _shown(read(file).to_pylist(), vector)]


def _files(path: str) -> Iterator[tuple[str, list[bool]]]:
    table = opened(path)
    vectors = pa.table(table.deletion_vectors()).to_pylist()
    by_name = {row["filepath"].rpartition("/")[2]: row["selection_vector"] for row in vectors}
    for file in map(unquote, table.file_uris()):
        yield file, by_name.get(file.rpartition("/")[2], [])


def _shown(rows: Rows, vector: list[bool]) -> Rows:
    return [row for place, row in enumerate(rows) if place >= len(vector) or vector[place]]
