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
from pyroaring import BitMap64

from include.lake.damage import damaged, on_one_line
from include.lake.duckdb_files import database_over
from include.lake.merge.deletion_vectors import read_vectors
from include.lake.merge.order import Value
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import bound, rows_at_most
from include.lake.merge.unfit import UnfitError
from include.protocol.json_data import JsonObject

Numbers = npt.NDArray[np.int64]
_ROWS_MAX = 200_000_000  # of files that may hold the keys: beyond it, a cluster of Spark looks faster than one process
_CHUNK = 2048  # rows; as many as DuckDB has at once
_FILE, _ROW, _KEY = "_lakemark_file", "file_row_number", "_lakemark_key"
_OF_FILES = (
    f"read_parquet($names, filename = '{_FILE}', file_row_number = true, union_by_name = true, "
    "hive_partitioning = false)"
)


@dataclass(frozen=True)
class Met:
    """The rows that keys meet, and that are not gone: place by place.

    Args:
        files: the `add` of each file that holds any. gone: of each file, the rows that are gone. file: the file of each
            row, by its place in `files`. row: its number in that file. key: the key that meets it, by its place.
            values: what was asked for of it.
    """

    files: list[JsonObject]
    gone: list[BitMap64]
    file: Numbers
    row: Numbers
    key: Numbers
    values: pa.Table

    def only(self, these: npt.NDArray[np.bool_]) -> Met:
        """Some of the rows."""
        kept = self.values.filter(pa.array(these))
        return Met(self.files, self.gone, file=self.file[these], row=self.row[these], key=self.key[these], values=kept)


def met_rows(table: Snapshot, keys: pa.Table, values: Mapping[str, str], bytes_max: int | None = None) -> Met:
    """The rows of these keys.

    Args:
        keys: distinct ones; a null is a key, too. values: for each column that is wanted, its SQL over a row `t`.
            bytes_max: of what is wanted, in memory; None: however many.

    Raises:
        UnfitError: there are too many rows to look through, what is wanted has too many bytes, or a deletion vector
            has a form that is not known here. TableDamaged: a file is not there, or not readable.
    """
    files = candidates(table, keys)
    if not files or not keys.num_rows:
        nothing = np.empty(0, dtype=np.int64)
        return Met([], [], file=nothing, row=nothing, key=nothing, values=pa.table({}))
    if rows_at_most(files) > _ROWS_MAX:
        raise UnfitError(f"more than {_ROWS_MAX:,} rows in the files that may hold the keys")
    return _met(table, files, _joined(table, files, keys, values, bytes_max=bytes_max), [*values])


def all_rows(table: Snapshot, files: Sequence[JsonObject], bytes_max: int) -> pa.Table:
    """The rows of these files that are not gone, with the columns that the files have. Raises as `met_rows`."""
    found = _read(table, files, f"t.*, 0::BIGINT AS {_KEY}", bytes_max=bytes_max)
    return _met(table, files, found, [name for name in found.column_names if name not in (_FILE, _ROW, _KEY)]).values


def _met(table: Snapshot, files: Sequence[JsonObject], found: pa.Table, values: list[str]) -> Met:
    """The rows that are not gone, of those with _FILE, _ROW and _KEY."""
    names = pc.dictionary_encode(found[_FILE].combine_chunks())
    by_name = {str(table.uri.resolve(file["path"])): file for file in files}
    holding = [by_name[name] for name in names.dictionary.to_pylist()]
    met = Met(
        holding,
        read_vectors(table.uri, [file.get("deletionVector") for file in holding]),
        file=names.indices.to_numpy().astype(np.int64),
        row=found[_ROW].to_numpy(),
        key=found[_KEY].to_numpy(),
        values=found.select(values),
    )
    return met.only(_are_there(met))


def candidates(table: Snapshot, keys: pa.Table) -> list[JsonObject]:
    """The files whose statistics do not exclude every key."""
    found = [*table.files.values()]
    for name in keys.column_names:
        values = _sorted(keys[name].drop_null())
        if values is not None:
            has_null = keys[name].null_count > 0
            found = [file for file in found if _may_hold(file, name, keys[name].type, values, has_null=has_null)]
    return found


def _joined(
    table: Snapshot, files: Sequence[JsonObject], keys: pa.Table, values: Mapping[str, str], bytes_max: int | None
) -> pa.Table:
    """Every row of the keys, gone or not. Columns: _FILE, _ROW, _KEY and the values."""
    own = {f"k{n}": keys[name] for n, name in enumerate(keys.column_names)}
    wanted = pa.table({**own, "place": pa.array(np.arange(keys.num_rows, dtype=np.int64))})
    same = {name: "=" if _has_plain_order(keys[name]) else "IS NOT DISTINCT FROM" for name in keys.column_names}
    on = " AND ".join(f"t.{quoted(name)} {same[name]} s.k{n}" for n, name in enumerate(keys.column_names))
    asked = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in values.items())
    columns = f"t.{_FILE}, t.{_ROW}, s.place AS {_KEY}, {asked}"
    return _read(table, files, columns, f"JOIN s ON {on}", bytes_max=bytes_max, s=wanted)


def _has_plain_order(key: pa.ChunkedArray) -> bool:
    """Whether an equal sign, which is faster, finds all of its rows: no value is a null, and none can be NaN, which
    many writers leave out of a file's own bounds."""
    return not key.null_count and not pa.types.is_floating(key.type)


def _read(
    table: Snapshot,
    files: Sequence[JsonObject],
    asked: str,
    joined: str = "",
    *,
    bytes_max: int | None,
    **relations: pa.Table,
) -> pa.Table:
    """Rows `t` of these files, gone or not, by DuckDB. Args: asked: SQL of columns; _FILE and _ROW are there, too."""
    sizes = {table.uri.resolve(file["path"]): file["size"] for file in files}
    try:
        with database_over(sizes) as (database, names):
            for name, relation in relations.items():
                database.register(name, relation)

            def rows(source: str) -> pa.Table:
                found = database.sql(f"SELECT {asked} FROM {source} t {joined}", params={"names": names})
                if bytes_max is None:
                    return found.to_arrow_table()
                return _at_most(bytes_max, found.to_arrow_reader(_CHUNK))

            try:
                return rows(_OF_FILES)
            except duckdb.BinderException:  # all of them are older than a column of the table
                database.register("later", table.schema.empty_table())
                return rows(f"(FROM {_OF_FILES} UNION ALL BY NAME FROM later)")
    except (duckdb.IOException, FileNotFoundError) as error:
        raise damaged(table.uri, on_one_line(error)) from error


def _at_most(bytes_max: int, found: pa.RecordBatchReader) -> pa.Table:
    """The rows, read piece by piece: no size that a log tells says what they take in memory."""
    pieces, total = [], 0
    for piece in found:
        total += piece.nbytes
        if total > bytes_max:
            raise UnfitError(f"more than {bytes_max >> 20:,} MiB in the rows that are needed")
        pieces.append(piece)
    return pa.Table.from_batches(pieces, found.schema)


def _are_there(met: Met) -> npt.NDArray[np.bool_]:
    """Which of the rows are not gone."""
    there = np.ones(len(met.row), dtype=bool)
    for place, gone in enumerate(met.gone):
        if gone:
            mine = np.flatnonzero(met.file == place)
            there[mine] = [int(row) not in gone for row in met.row[mine]]
    return there


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


def _may_hold(file: JsonObject, name: str, type_: pa.DataType, values: npt.NDArray[Any], has_null: bool) -> bool:
    told: Mapping[str, Any] = json.loads(file["stats"]) if file.get("stats") else {}
    if has_null and (told.get("nullCount") or {}).get(name) != 0:
        return True
    low = bound((told.get("minValues") or {}).get(name), type_, is_upper=False)
    high = bound((told.get("maxValues") or {}).get(name), type_, is_upper=True)
    if low is None or high is None:
        return True
    return bool(np.searchsorted(values, low, "left") < np.searchsorted(values, high, "right"))


def sql_of(value: Value) -> str:
    """SQL for a value of a row `t`."""
    paths = [".".join(map(quoted, path)) for path in value]
    return f"coalesce({', '.join(f't.{path}' for path in paths)})"


def quoted(name: str) -> str:
    """A name, as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
