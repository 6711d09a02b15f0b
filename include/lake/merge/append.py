"""Adds rows to a table."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa

from include.lake.merge.actions import Actions
from include.lake.merge.data_file import write_file
from include.lake.merge.fitness import verify_fit
from include.lake.merge.snapshot import Snapshot


@dataclass(frozen=True)
class Append:
    """Rows to add, with the table's columns; those that are missing are null."""

    rows: pa.Table

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table, only_appends=True)
        add = write_file(table, self.rows, time.time_ns() // 1_000_000)
        metrics = {"numFiles": 1, "numOutputRows": len(self.rows), "numOutputBytes": add["size"]}
        return Actions([{"add": add}], "WRITE", {"mode": "Append", "partitionBy": "[]"}, metrics, is_blind=True)
