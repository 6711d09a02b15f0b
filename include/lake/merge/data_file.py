"""Writes a data file: rows in a table's columns and types, with the statistics that a log has of them."""

from __future__ import annotations

import io
import uuid
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import leaves, statistics_of
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.protocol.json_data import JsonObject

BYTES_TAG = "lakemark.bytes"  # of an `add`: what the file's rows take in memory, which no size of the file tells
_GROUP_ROWS = 1 << 17  # of a row group, which is encoded at once, in memory


def write_file(table: Snapshot, rows: pa.Table, now: int) -> JsonObject:
    """Writes rows as one new file, and returns its `add`. Columns, and fields of structs, that rows lack are null.

    Args:
        now: milliseconds since 1970.

    Raises:
        UnfitError: the rows have columns that the table lacks, or of other types. OSError: the store refuses.
    """
    shaped = _shaped(rows, table.schema)
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    content = io.BytesIO()
    pq.write_table(
        shaped,
        content,
        compression="zstd",
        store_decimal_as_integer=True,
        row_group_size=_GROUP_ROWS,
        write_statistics=_with_bounds(shaped),
    )
    files_at(table.uri).create(table.uri / name, content.getvalue())
    return {
        "path": quote(name),
        "partitionValues": {},
        "size": content.tell(),
        "modificationTime": now,
        "dataChange": True,
        "tags": {BYTES_TAG: str(shaped.nbytes)},
        "stats": statistics_of(shaped, table.metadata.get("configuration") or {}),
    }


def bytes_told(file: JsonObject) -> int:
    """What the rows of a file take in memory, in bytes, as its `add` says; 0 if another writer has made it."""
    return int((file.get("tags") or {}).get(BYTES_TAG, 0))


def footer_of(table: Snapshot, file: JsonObject) -> pq.FileMetaData:
    """What a data file says of itself. Args: file: its `add`. Raises OSError: it is not there, or not readable."""
    with files_at(table.uri).open(table.uri.resolve(file["path"])) as content:
        return pq.read_metadata(content)


def _with_bounds(rows: pa.Table) -> list[str]:
    """The columns and fields for which the file's footer may say the lowest and the highest value, by which readers
    leave out groups of rows. (Arrow leaves NaN out of these, and for Spark NaN is the highest of all.)"""
    found = (leaf for name in rows.column_names for leaf in leaves(rows[name], (name,)))
    plain = [(".".join(path), values) for path, values in found if not pa.types.is_nested(values.type)]
    # Arrow takes `a.b` for the column of that name, and for the field b of the column a.
    without = {name for name, values in plain if _has_nan(values)}
    return [name for name, _ in plain if name not in without]


def _has_nan(values: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the table's columns and types."""
    if unknown := sorted({*rows.column_names} - {*schema.names}):
        raise UnfitError(f"no column {', '.join(unknown)}")
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            _verify_nulls(field, columns[-1])
            continue
        if not _is_alike(rows.schema.field(field.name).type, field.type):
            raise UnfitError(f"the column {field.name}, which has another type in the table")
        columns.append(rows[field.name].cast(field.type))
        _verify_nulls(field, columns[-1])
    return pa.Table.from_arrays(columns, schema=schema)


def _verify_nulls(field: pa.Field, values: pa.Array | pa.ChunkedArray) -> None:
    if values.null_count and not field.nullable:
        raise UnfitError(f"a null for the column {field.name}, which is NOT NULL")


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether the second type holds the values of the first, maybe with more fields.

    What they say of nulls, and the name of the time zone, does not count.
    """
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        there = {field.name: field.type for field in other}
        return all(field.name in there and _is_alike(field.type, there[field.name]) for field in one)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _is_alike(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _is_alike(one.key_type, other.key_type) and _is_alike(one.item_type, other.item_type)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.unit, one.tz is None) == (other.unit, other.tz is None)
    return bool(one == other)
