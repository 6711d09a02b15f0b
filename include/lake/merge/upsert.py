"""Merges changes into a table with one row per key: where a change is newer, its row takes the place of the old one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from include.lake.merge.actions import Actions
from include.lake.merge.data_file import write_file
from include.lake.merge.deletion_vectors import read_vector, write_vectors
from include.lake.merge.fitness import verify_fit
from include.lake.merge.positions import Found, candidates, found_rows
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import loosened
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

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table)
        rows, place = self.rows, f'"{self.lineage}"."{self.order}"'
        orders = pc.struct_field(rows[self.lineage], self.order).combine_chunks()
        keys = rows.select([*self.keys])
        found = found_rows(table, candidates(table, keys), keys, orders=orders, order=place, again=self.again)
        met, newer = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        for one in found:
            met[one.changes] = True
            newer[one.changes[one.newer]] = True
        written = np.flatnonzero(newer | ~met)
        now = time.time_ns() // 1_000_000
        added = [write_file(table, rows.take(pa.array(written)), now)] if len(written) else []
        gone, figures = _vectors(table, found, now)
        metrics = {
            "numSourceRows": len(rows),
            "numTargetRowsInserted": int((~met).sum()),
            "numTargetRowsUpdated": int(newer.sum()),
            "numTargetRowsDeleted": 0,
            "numTargetRowsCopied": 0,
            "numOutputRows": len(written),
            "numTargetFilesAdded": len(added),
            "numTargetBytesAdded": sum(file["size"] for file in added),
            **figures,
        }
        predicate = json.dumps([f"({key} = {key})" for key in self.keys])
        return Actions([*({"add": file} for file in added), *gone], "MERGE", {"predicate": predicate}, metrics)


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
