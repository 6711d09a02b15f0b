"""Makes few files of many small ones, so that a table stays as quick to read and to merge into as on its first day.

Each batch adds a file. So small files are merged by tiers, as in a log-structured merge tree: a file is written again
only together with others that are, taken together, about as large. A row is then written a few times in its life.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from include.lake.arrow import plainly_named
from include.lake.merge.actions import Actions
from include.lake.merge.data_file import bytes_told, footer_of, write_file
from include.lake.merge.fitness import verify_fit
from include.lake.merge.positions import all_rows
from include.lake.merge.replacing import removed
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import rows_told
from include.protocol.json_data import JsonObject

FILES_MIN = 20  # fewer stay as they are
_SMALL_BYTES = 16 << 20  # larger files stay as they are: Spark's OPTIMIZE is for these
_TOTAL_BYTES = 64 << 20  # of the files that are merged at once
BYTES_MAX = 160_000_000  # of these before they were compressed, unless the caller says otherwise
_OF_A_CELL = 16  # bytes at least, of a row's value of a column in memory
_TIER = 4  # a file is not written again with others that make less than a quarter of it


def chosen(files: Iterable[JsonObject], columns: int, bytes_max: int) -> list[JsonObject]:
    """The files to merge into one; none if there are too few. Files that Spark has clustered stay where they are.

    Args:
        files: the `add` of each. columns: how many the table has. bytes_max: of their rows in memory.
    """
    small = [f for f in files if f["size"] < _SMALL_BYTES and not f.get("clusteringProvider")]
    found: list[JsonObject] = []
    total, plain = 0, 0
    for file in sorted(small, key=lambda file: int(file["size"])):
        plain += _OF_A_CELL * columns * (rows_told(file) or 0)
        is_much = total + file["size"] > _TOTAL_BYTES or plain > bytes_max
        if is_much or (len(found) > 1 and file["size"] > _TIER * total):
            break
        found.append(file)
        total += file["size"]
    return found if len(found) >= FILES_MIN else []


@dataclass(frozen=True)
class Compaction:
    """Merges small files. No reader sees another row.

    Args:
        order_by: columns by which the rows are laid out. bytes_max: of the rows in memory. It takes some three times as
            much, and up to six where a file has a value once that many rows have.
    """

    order_by: tuple[str, ...] = ()
    bytes_max: int = BYTES_MAX

    def over(self, table: Snapshot) -> Actions:
        """See `Change`. There are no actions if there is nothing to do."""
        verify_fit(table, only_appends=True)  # nothing is replaced: each row is there as it was
        files = chosen(table.files.values(), len(table.column_names), self.bytes_max)
        files = _that_fit(table, files, self.bytes_max)
        if len(files) < FILES_MIN // 4:
            return Actions([], "OPTIMIZE", {}, {})
        rows = _rows_in(table, files, bytes_max=2 * self.bytes_max)
        if self.order_by:
            rows = rows.take(_order(rows.select(self.order_by)))
        now = time.time_ns() // 1_000_000
        added = [{**write_file(table, rows, now), "dataChange": False}] if len(rows) else []
        gone = [{**removed(file, now), "dataChange": False} for file in files]
        metrics = {
            "numRemovedFiles": len(gone),
            "numRemovedBytes": sum(file["size"] for file in files),
            "numAddedFiles": len(added),
            "numAddedBytes": sum(file["size"] for file in added),
            "numDeletionVectorsRemoved": sum("deletionVector" in file for file in files),
        }
        parameters = {"predicate": "[]", "auto": "true"}
        return Actions(
            [*({"remove": file} for file in gone), *({"add": file} for file in added)], "OPTIMIZE", parameters, metrics
        )


def _order(rows: pa.Table) -> pa.Array:
    """The places of rows in their order."""
    plain = plainly_named(rows)
    return pc.sort_indices(plain, sort_keys=[(name, "ascending") for name in plain.column_names])


def _that_fit(table: Snapshot, files: Iterable[JsonObject], bytes_max: int) -> list[JsonObject]:
    """The first ones of these files that fit into memory together."""
    found: list[JsonObject] = []
    total = 0
    for file in files:
        total += bytes_told(file) or _bytes_encoded(table, file)
        if total > bytes_max:
            break
        found.append(file)
    return found


def _bytes_encoded(table: Snapshot, file: JsonObject) -> int:
    """What a file holds before it is compressed. A value that many rows have stands there once."""
    footer = footer_of(table, file)
    return sum(footer.row_group(n).total_byte_size for n in range(footer.num_row_groups))


def _rows_in(table: Snapshot, files: list[JsonObject], bytes_max: int) -> pa.Table:
    """All rows of these files that are not gone, in the table's columns."""
    kept = all_rows(table, files, bytes_max=bytes_max)
    schema = table.schema
    columns = [
        kept[f.name].cast(f.type) if f.name in kept.column_names else pa.nulls(len(kept), f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
