"""Takes rows out of data files, by deletion vectors; and takes over what a new row does not say from the old one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from include.lake.merge.actions import Actions
from include.lake.merge.data_file import footer_of, write_file
from include.lake.merge.deletion_vectors import write_vectors
from include.lake.merge.positions import Met
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import loosened, rows_told
from include.protocol.json_data import JsonObject

_KEPT_IN_REMOVE = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "stats")


class RowCounts(NamedTuple):
    """What Spark counts in the commit of a MERGE."""

    sources: int
    inserted: int
    updated: int
    deleted: int = 0


def replaced(table: Snapshot, old: Met, rows: pa.Table, counts: RowCounts, matched_by: Iterable[str]) -> Actions:
    """Takes rows out, and writes others: a commit that says what a MERGE by Spark would say.

    Args:
        old: the rows that go. rows: the new ones, maybe none. matched_by: names, for people.
    """
    now = time.time_ns() // 1_000_000
    added = [write_file(table, rows, now)] if len(rows) else []
    gone, figures = _taken_out(table, old, now)
    metrics = {
        "numSourceRows": counts.sources,
        "numTargetRowsInserted": counts.inserted,
        "numTargetRowsUpdated": counts.updated,
        "numTargetRowsDeleted": counts.deleted,
        "numTargetRowsCopied": 0,
        "numOutputRows": len(rows),
        "numTargetFilesAdded": len(added),
        "numTargetBytesAdded": sum(file["size"] for file in added),
        **figures,
    }
    predicate = json.dumps([f"({name} = {name})" for name in matched_by])
    return Actions([*({"add": file} for file in added), *gone], "MERGE", {"predicate": predicate}, metrics)


def _taken_out(table: Snapshot, met: Met, now: int) -> tuple[list[JsonObject], dict[str, int]]:
    """Writes one file of deletion vectors, in which these rows are gone, too. Returns the actions for the files that
    hold them, and figures by the names that Spark uses.

    Args:
        now: milliseconds since 1970.
    """
    actions: list[JsonObject] = []
    marked: list[tuple[JsonObject, BitMap64, int]] = []  # a file, its rows that are gone, and how many it has
    for place, file in enumerate(met.files):
        rows = met.row[met.file == place]
        if not len(rows):
            continue
        gone = met.gone[place] | BitMap64(rows.astype(np.uint64))
        actions.append({"remove": removed(file, now)})
        if len(gone) < (of_file := _rows_in(table, file)):
            marked.append((file, gone, of_file))
    vectors, size = write_vectors(table.uri, [gone for _, gone, _ in marked]) if marked else ([], 0)
    for (file, _, of_file), vector in zip(marked, vectors, strict=True):
        stats = loosened(file.get("stats"), of_file)
        actions.append({"add": {**file, "dataChange": True, "deletionVector": vector, "stats": stats}})
    had = sum("deletionVector" in file for file, *_ in marked)
    return actions, {
        "numTargetFilesRemoved": len(actions) - 2 * len(marked),
        "numTargetDeletionVectorsAdded": len(marked) - had,
        "numTargetDeletionVectorsUpdated": had,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetBytesOfDeletionVectors": size,
    }


def removed(file: JsonObject, now: int) -> JsonObject:
    """The `remove` of a file. Args: file: its `add`. now: milliseconds since 1970."""
    kept = {name: file[name] for name in _KEPT_IN_REMOVE if name in file}
    return {"path": file["path"], "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True, **kept}


def with_old_values(rows: pa.Table, old: pa.Table, place: npt.NDArray[np.int64]) -> pa.Table:
    """Adds the columns of old rows to the new rows that take their places.

    Args:
        old: the columns that the rows lack. place: for each row, the place of its old one; -1: it has none, and null.
    """
    taken = pa.array(place, mask=place < 0)
    for name in old.column_names:
        rows = rows.append_column(name, old[name].take(taken))
    return rows


def _rows_in(table: Snapshot, file: JsonObject) -> int:
    """How many rows the file has, gone or not."""
    if (told := rows_told(file)) is not None:
        return told
    return int(footer_of(table, file).num_rows)
