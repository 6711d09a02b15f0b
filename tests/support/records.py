"""Records as an attempt reads them, made by hand."""

from __future__ import annotations

# Columns of `spark_jobs.changes.records.read_records`, without headers.
RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
