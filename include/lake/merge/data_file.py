"""Writes a data file: rows in a table's columns and types, with the statistics that a log has of them."""

from __future__ import annotations

import io
import uuid
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import statistics_of
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.protocol.json_data import JsonObject


def write_file(table: Snapshot, rows: pa.Table, now: int) -> JsonObject:
    """Writes rows as one new file, and returns its `add`. Columns that the rows lack are null.

    Args:
        now: milliseconds since 1970.

    Raises:
        UnfitError: the rows have columns that the table lacks. OSError: the store refuses.
    """
    shaped = _shaped(rows, pa.schema(Schema.from_json(table.metadata["schemaString"]).to_arrow()))
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    content = io.BytesIO()
    pq.write_table(shaped, content, compression="zstd", store_decimal_as_integer=True)
    files_at(table.uri).create(table.uri / name, content.getvalue())
    return {
        "path": quote(name),
        "partitionValues": {},
        "size": content.tell(),
        "modificationTime": now,
        "dataChange": True,
        "stats": statistics_of(shaped, table.metadata.get("configuration") or {}),
    }


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the table's columns and types."""
    if unknown := sorted({*rows.column_names} - {*schema.names}):
        raise UnfitError(f"columns that the table lacks: {', '.join(unknown)}")
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
