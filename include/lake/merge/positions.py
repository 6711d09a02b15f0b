"""Finds the rows that a batch's changes meet: first the files that may hold their keys, then the rows in these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from include.lake.delta_tables import damaged, first_line
from include.lake.merge.deletion_vectors import read_vector
from include.lake.merge.order import Flags, is_newer
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import bound
from include.lake.merge.unfit import UnfitError
from include.protocol.json_data import JsonObject

Rows = npt.NDArray[np.int64]  # numbers of rows: in a data file, or of the changes


@dataclass(frozen=True)
class Found:
    """Rows of one data file that changes meet, and that are not gone."""

    file: JsonObject  # its `add`
    rows: Rows
    changes: Rows  # which change meets each of them
    newer: Flags  # whether that change comes after the row


def candidates(table: Snapshot, keys: pa.Table) -> list[JsonObject]:
    """The files whose statistics do not exclude every key. Args: keys: the key columns of the changes."""
    found = [*table.files.values()]
    for name in keys.column_names:
        values = _sorted(keys[name])
        if values is not None:
            found = [file for file in found if _may_hold(file, name, keys[name].type, values)]
    return found


def found_rows(
    table: Snapshot, files: Sequence[JsonObject], keys: pa.Table, orders: pa.StructArray, order: str, again: bool
) -> list[Found]:
    """The rows of these keys.

    Args:
        files: see `candidates`. keys, orders: of the changes, place by place. order: the path of a row's order.
        again: see `is_newer`.

    Raises:
        UnfitError: a key has several rows, or a deletion vector is damaged. TableDamaged: a file is not there, or not
            readable.
    """
    if not files or not keys.num_rows:
        return []
    found = _joined(table, files, keys, order)
    names = {str(table.uri.resolve(file["path"])): file for file in files}
    by_file: list[Found] = []
    for name, part in _by_file(found):
        file = names[name]
        rows, changes = (part[column].to_numpy() for column in ("row", "change"))
        gone = read_vector(table.uri, file.get("deletionVector"))
        kept = np.fromiter((int(row) not in gone for row in rows), dtype=bool, count=len(rows))
        if not kept.any():
            continue
        rows, changes, there = rows[kept], changes[kept], _struct(part["there"]).filter(pa.array(kept))
        newer = is_newer(orders.take(pa.array(changes)), there, again)
        by_file.append(Found(file, rows, changes, newer))
    met = np.concatenate([one.changes for one in by_file]) if by_file else np.empty(0, dtype=np.int64)
    if len(np.unique(met)) != len(met):
        raise UnfitError("a key that has several rows")
    return by_file


def _joined(table: Snapshot, files: Sequence[JsonObject], keys: pa.Table, order: str) -> pa.Table:
    """Every row of the keys, gone or not. Columns: name (of the file), row, change, there (the row's order)."""
    names = [str(table.uri.resolve(file["path"])) for file in files]
    own = {f"k{n}": keys[name] for n, name in enumerate(keys.column_names)}
    wanted = pa.table({**own, "change": pa.array(np.arange(keys.num_rows, dtype=np.int64))})
    on = " AND ".join(f"t.{_quoted(name)} = s.k{n}" for n, name in enumerate(keys.column_names))
    with duckdb.connect(config={"threads": 2}) as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("s", wanted)
        try:
            return database.sql(
                f"SELECT t.filename AS name, t.file_row_number AS row, s.change AS change, t.{order} AS there "
                f"FROM read_parquet($names, filename = true, file_row_number = true) t JOIN s ON {on}",
                params={"names": names},
            ).to_arrow_table()
        except duckdb.IOException as error:
            raise damaged(table.uri, first_line(error)) from error


def _by_file(found: pa.Table) -> list[tuple[str, pa.Table]]:
    names = pc.dictionary_encode(found["name"].combine_chunks()) if found.num_rows else None
    if names is None:
        return []
    places = names.indices.to_numpy()
    return [(name, found.filter(pa.array(places == n))) for n, name in enumerate(names.dictionary.to_pylist())]


def _struct(values: pa.ChunkedArray) -> pa.StructArray:
    return values.combine_chunks()


def _sorted(values: pa.ChunkedArray) -> npt.NDArray[Any] | None:
    """The values in order, as `bound` compares them; None for types whose statistics are not used."""
    type_ = values.type
    if pa.types.is_integer(type_) or pa.types.is_date(type_):
        return np.sort(values.to_numpy())
    if pa.types.is_timestamp(type_):
        return np.sort(values.to_numpy().astype("datetime64[us]"))
    if pa.types.is_string(type_):
        return np.sort(np.asarray(values.to_pylist(), dtype=object))
    return None


def _may_hold(file: JsonObject, name: str, type_: pa.DataType, values: npt.NDArray[Any]) -> bool:
    told: Mapping[str, Any] = json.loads(file["stats"]) if file.get("stats") else {}
    low = bound((told.get("minValues") or {}).get(name), type_, is_upper=False)
    high = bound((told.get("maxValues") or {}).get(name), type_, is_upper=True)
    if low is None or high is None:
        return True
    return bool(np.searchsorted(values, low, "left") < np.searchsorted(values, high, "right"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
