"""The data files of Delta tables: whether they are there, whole, and what every reader understands."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from include.lake.arrow import table_of
from include.lake.damage import damaged, on_one_line
from include.lake.delta_tables import OpenedTable, open_table, query_arrow, uri_of
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged


def harmed_file(table: OpenedTable) -> str | None:
    """What is wrong with the first data file of the table's version that is missing or has another size than the log
    says; None if there is none. It reads no file."""
    uri = uri_of(table)
    sizes = {PurePosixPath(file.name).name: file.size for file in files_at(uri).list(uri)}
    actions = table_of(table.get_add_actions())
    for path, size in zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True):
        name = PurePosixPath(unquote(path)).name  # every data file has a name of its own
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != size:
            return f"{name} has {sizes[name]:,} bytes, and {size:,} were written"
    return None


def lost_file(uri: LakeUri, version: int) -> str | None:
    """A file of a version that is no longer there, or an error that says so; None if all of them are there."""
    try:
        table = open_table(uri, version)
        assert table is not None, "its log was there a moment ago"
        there = {file.name for file in files_at(uri).list(uri)}
        needed = table_of(table.get_add_actions()).column("path").to_pylist()
        if (lost := next((name for name in map(unquote, needed) if name not in there), None)) is not None:
            return lost
        query_arrow(table, "select count(*) from t")  # reads all deletion vectors, which no listing names
    except TableDamaged as error:
        return error.found
    except (DeltaError, OSError, ValueError) as error:
        return on_one_line(error)
    return None


def file_of_int96(table: OpenedTable) -> str | None:
    """The first data file that holds timestamps as INT96; None if there is none, as in every table without timestamps.

    Readers that use Arrow (deltalake, Polars, pyarrow) take INT96 as 64-bit nanoseconds. Before 1677-09-21 and after
    2262-04-11 they see other times than were written. This reads the footers of all files of the newest version.

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    if '"timestamp"' not in table.schema().to_json():
        return None
    uri = uri_of(table)
    for name in table_of(table.get_add_actions()).column("path").to_pylist():
        try:
            with files_at(uri).open(uri.resolve(name)) as file:
                schema = pq.read_metadata(file).schema
        except (OSError, pa.ArrowException) as error:
            raise damaged(uri, on_one_line(error)) from error
        if any(schema.column(n).physical_type == "INT96" for n in range(len(schema))):
            return str(name)
    return None
