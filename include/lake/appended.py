"""Small tables that rows are only appended to: read and written without a library that lists their logs, and that does
not tell its own commit from another writer's when an answer gets lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from include.lake.arrow import parquet_file
from include.lake.damage import damaged, on_one_line
from include.lake.delta_tables import keep_few_files, open_table
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import delta_options, files_at, log_store_of
from include.lake.uri import LakeUri
from include.lake.writing import refused, writing
from include.protocol.json_data import JsonObject

_FILES_MAX = 100  # above this number they become one
_AT_ONCE = 8  # files: most of the time passes while a store answers


def append(uri: LakeUri, rows: pa.Table, what: str, marker: Marker | None = None) -> None:
    """Adds rows to a table, and keeps its files few. Makes the table, or the columns that it lacks.

    Args:
        what: what the rows are, for the error. marker: lands with them, so that they land once; if it is there, nothing
            happens.

    Raises:
        RetryableError: the store refused the write. TableDamaged: see `open_table`.
    """
    with writing(what, uri):
        try:
            table = _with_columns(uri, rows.schema)
            land(table, Append(rows), marker, None)
        except MarkerIsThereError:
            return
        except (OvertakenError, UnfitError) as error:
            raise refused(what, uri, error) from error
        if len(table.files) >= _FILES_MAX and (opened := open_table(uri)) is not None:
            keep_few_files(opened, _FILES_MAX)


def _with_columns(uri: LakeUri, schema: pa.Schema) -> Snapshot:
    """The table, with these columns and perhaps more. No commit of this is lost or done twice if an answer is."""
    options = delta_options(uri)
    if not log_store_of(uri).exists():
        with suppress(CommitFailedError):  # another writer has just made it
            files_at(uri).make_folder(uri.parent)
            DeltaTable.create(str(uri), schema, mode="ignore", storage_options=options)
    table = Snapshot.of(uri)
    if not set(schema.names) <= set(table.column_names):
        with suppress(CommitFailedError):  # another writer has just added them
            write_deltalake(str(uri), schema.empty_table(), mode="append", schema_mode="merge", storage_options=options)
        table.brought_up()
    return table


def rows_from(table: Snapshot, column: str, least: int | None) -> pa.Table:
    """The rows of a table, in the order of a column of whole numbers.

    Args:
        least: of that column; None: all rows.

    Raises:
        TableDamaged: a file is missing, or not readable, or says that rows are gone.
    """
    files = [file for file in table.files.values() if least is None or _greatest(file, column) >= least]
    rows = pa.concat_tables([table.schema.empty_table(), *_read(table, files)])
    if least is not None:
        rows = rows.filter(pc.greater_equal(rows[column], least))
    return rows.sort_by(column)


def _greatest(file: JsonObject, column: str) -> float:
    told = json.loads(file["stats"]) if file.get("stats") else {}
    found = (told.get("maxValues") or {}).get(column)
    return float("inf") if found is None else found


def _read(table: Snapshot, files: Sequence[JsonObject]) -> list[pa.Table]:
    def read(file: JsonObject) -> pa.Table:
        if file.get("deletionVector"):
            raise damaged(table.uri, f"{file['path']}: rows are gone, and rows were only appended")
        try:
            with files_at(table.uri).open(table.uri.resolve(file["path"])) as content:
                return parquet_file(content).read(use_threads=False).cast(table.schema)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise damaged(table.uri, f"{file['path']}: {on_one_line(error)}") from error

    if table.uri.scheme == "file" or len(files) < 2:
        return [*map(read, files)]
    with ThreadPoolExecutor(min(_AT_ONCE, len(files))) as pool:
        return [*pool.map(read, files)]
