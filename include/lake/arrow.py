"""Ways around what pyarrow does that is not wanted here."""

from __future__ import annotations

from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq


class Stream(Protocol):
    """Batches of rows, by Arrow's interface between libraries (PyCapsule)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def table_of(handed: Stream) -> pa.Table:
    """What deltalake hands out, as a table of pyarrow. (`pa.table` would import pandas first, to see whether it is a
    frame of pandas. That takes more than half a second, once in each process.)"""
    return pa.RecordBatchReader.from_stream(handed).read_all()


def plainly_named(rows: pa.Table) -> pa.Table:
    """The same columns under other names. (Where Arrow groups or sorts, it takes `.id` for a path, not for a name.)"""
    return rows.rename_columns([f"c{n}" for n in range(rows.num_columns)])


def parquet_file(content: BinaryIO) -> pq.ParquetFile:
    """A Parquet file that is read in the caller's own thread. (By default, pyarrow reads ahead in threads of its own.
    Such a thread may still hold a buffer of Python's when the interpreter ends, and then aborts the process, whose work
    was done.)"""
    return pq.ParquetFile(content, pre_buffer=False)
