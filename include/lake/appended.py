"""Reads small tables that rows are only appended to, without opening them by a library that lists their logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from include.lake.damage import damaged, on_one_line
from include.lake.merge.snapshot import Snapshot
from include.lake.stores import files_at
from include.protocol.json_data import JsonObject

_AT_ONCE = 8  # files: most of the time passes while a store answers


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
                return pq.ParquetFile(content).read(use_threads=False).cast(table.schema)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise damaged(table.uri, f"{file['path']}: {on_one_line(error)}") from error

    if table.uri.scheme == "file" or len(files) < 2:
        return [*map(read, files)]
    with ThreadPoolExecutor(min(_AT_ONCE, len(files))) as pool:
        return [*pool.map(read, files)]
