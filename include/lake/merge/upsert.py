"""Merges changes into a table with one row per key: where a change is newer, its row takes the place of the old one.

This decides and writes files. They belong to no version until a commit names them (`landing`).
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema
from pyroaring import BitMap64

from include.lake.merge.deletion_vectors import read_vector, write_vectors
from include.lake.merge.fitness import verify_fit
from include.lake.merge.positions import Found, candidates, found_rows
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import loosened, statistics_of
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.protocol.json_data import JsonObject

_KEPT_IN_REMOVE = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "stats")


@dataclass(frozen=True)
class Upsert:
    """A batch's changes for one table, one per key.

    Args:
        rows: with the table's columns; those that are missing are null. keys: names of columns. lineage, order: the
            column, and its field, that say how a row is ordered. again: an equal order counts, too (`is_newer`).
    """

    rows: pa.Table
    keys: tuple[str, ...]
    lineage: str
    order: str
    again: bool = False


@dataclass(frozen=True)
class Actions:
    """What a commit has to say about files, and its figures, by the names that Spark's MERGE uses."""

    actions: list[JsonObject]
    metrics: Mapping[str, int]


def actions_of(table: Snapshot, upsert: Upsert) -> Actions:
    """Writes the files of an upsert over a version of a table. They belong to no version until a commit names them.

    Raises:
        UnfitError: Spark has to do it. OSError: the store refuses, or a file of the table is not there.
    """
    verify_fit(table)
    rows = upsert.rows
    orders = pc.struct_field(rows[upsert.lineage], upsert.order).combine_chunks()
    keys = rows.select([*upsert.keys])
    place = f'"{upsert.lineage}"."{upsert.order}"'
    found = found_rows(table, candidates(table, keys), keys, orders=orders, order=place, again=upsert.again)
    met, newer = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    for one in found:
        met[one.changes] = True
        newer[one.changes[one.newer]] = True
    written = np.flatnonzero(newer | ~met)
    now = time.time_ns() // 1_000_000
    actions, size = _new_file(table, rows.take(pa.array(written)), now) if len(written) else ([], 0)
    gone, figures = _vectors(table, found, now)
    metrics = {
        "numSourceRows": len(rows),
        "numTargetRowsInserted": int((~met).sum()),
        "numTargetRowsUpdated": int(newer.sum()),
        "numTargetRowsDeleted": 0,
        "numTargetRowsCopied": 0,
        "numOutputRows": len(written),
        "numTargetFilesAdded": len(actions),
        "numTargetBytesAdded": size,
        **figures,
    }
    return Actions([*actions, *gone], metrics)


def _new_file(table: Snapshot, rows: pa.Table, now: int) -> tuple[list[JsonObject], int]:
    """Writes the rows, and returns the file's `add` and its size in bytes."""
    shaped = _shaped(rows, pa.schema(Schema.from_json(table.metadata["schemaString"]).to_arrow()))
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    content = io.BytesIO()
    pq.write_table(shaped, content, compression="zstd", store_decimal_as_integer=True)
    size = content.tell()
    files_at(table.uri).create(table.uri / name, content.getvalue())
    properties = table.metadata.get("configuration") or {}
    add = {
        "path": quote(name),
        "partitionValues": {},
        "size": size,
        "modificationTime": now,
        "dataChange": True,
        "stats": statistics_of(shaped, properties),
    }
    return [{"add": add}], size


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the table's columns and types."""
    if unknown := sorted({*rows.column_names} - {*schema.names}):
        raise UnfitError(f"columns that the table lacks: {', '.join(unknown)}")
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _vectors(table: Snapshot, found: Sequence[Found], now: int) -> tuple[list[JsonObject], dict[str, int]]:
    """The actions for files whose rows are replaced, and figures."""
    actions: list[JsonObject] = []
    marked: list[tuple[JsonObject, BitMap64]] = []
    for one in found:
        replaced = one.rows[one.newer]
        if not len(replaced):
            continue
        gone = read_vector(table.uri, one.file.get("deletionVector")) | BitMap64(_unsigned(replaced))
        actions.append({"remove": _removed(one.file, now)})
        if len(gone) < _rows_in(table, one.file):
            marked.append((one.file, gone))
    vectors, size = write_vectors(table.uri, [gone for _, gone in marked]) if marked else ([], 0)
    for (file, _), vector in zip(marked, vectors, strict=True):
        stats = loosened(file["stats"]) if file.get("stats") else None
        add = {**file, "dataChange": True, "deletionVector": vector, **({"stats": stats} if stats else {})}
        actions.append({"add": add})
    had = sum("deletionVector" in file for file, _ in marked)
    return actions, {
        "numTargetFilesRemoved": len(actions) - 2 * len(marked),
        "numTargetDeletionVectorsAdded": len(marked) - had,
        "numTargetDeletionVectorsUpdated": had,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetBytesOfDeletionVectors": size,
    }


def _removed(file: JsonObject, now: int) -> JsonObject:
    kept = {name: file[name] for name in _KEPT_IN_REMOVE if name in file}
    return {"path": file["path"], "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True, **kept}


def _rows_in(table: Snapshot, file: JsonObject) -> int:
    """How many rows the file has, gone or not."""
    told = json.loads(file["stats"]).get("numRecords") if file.get("stats") else None
    if told is not None:
        return int(told)
    with files_at(table.uri).open(table.uri.resolve(file["path"])) as content:
        return int(pq.read_metadata(content).num_rows)


def _unsigned(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return rows.astype(np.uint64)
