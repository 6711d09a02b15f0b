"""Takes what deltalake hands out as pyarrow's."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Stream(Protocol):
    """Batches of rows, by Arrow's interface between libraries (PyCapsule)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def table_of(handed: Stream) -> pa.Table:
    """The same rows. (`pa.table` would import pandas first, to see whether they are a frame of pandas. That takes more
    than half a second, once in each process.)"""
    return pa.RecordBatchReader.from_stream(handed).read_all()
