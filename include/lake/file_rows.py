"""Reads a few rows of a Delta table from its data files: the newest, or those that two versions do not share.

So a look at a large table stays small. Rows that a deletion vector hides are left out (Delta protocol, "Deletion
Vectors").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake.exceptions import DeltaError

from include.lake.arrow import parquet_file, table_of
from include.lake.damage import damaged, on_one_line
from include.lake.delta_tables import OpenedTable, open_table, uri_of
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import LakemarkError, TerminalError

_BYTES_MAX = 256 << 20  # of rows, before compression, that one look reads
_MAPPING, _NONE = "delta.columnMapping.mode", "none"
Mask = npt.NDArray[np.bool_]  # one per row of a data file: whether it is wanted


@dataclass(frozen=True)
class _File:
    path: str  # as in the log
    written_at: int  # ms since 1970
    shown: Mask  # what no deletion vector hides


def newest_rows(table: OpenedTable, wanted: int) -> list[pa.Table]:
    """Rows of the newest data files, the newest first: at least so many, if the table has them and they are not too
    large.

    Raises:
        TerminalError: the log says more about the rows than the files do. TableDamaged: a file is not readable.
    """
    look, files = _Look.at(table), sorted(_files(table).values(), key=lambda file: file.written_at, reverse=True)
    found: list[pa.Table] = [look.schema.empty_table()]
    rows = 0
    for file in files:
        if rows >= wanted or (rows and look.bytes_left <= 0):
            break
        found += look.rows(file, file.shown)
        rows = sum(map(len, found))
    return found


def differing_rows(uri: LakeUri, before: int, after: int) -> tuple[pa.Table, pa.Table]:
    """The rows that only the one version has, and those that only the other has. A row that was copied into another
    file is in both.

    Raises:
        TerminalError: a version or a file is not there (any more), or too many rows differ. TableDamaged: a file is not
            readable.
    """
    tables = [_at(uri, version) for version in (before, after)]
    files = [_files(table) for table in tables]
    mine, theirs = (_only(tables[n], files[n], files[1 - n]) for n in (0, 1))
    return mine, theirs


@dataclass
class _Look:
    uri: LakeUri
    version: int
    schema: pa.Schema
    bytes_left: int = field(default=_BYTES_MAX)

    @classmethod
    def at(cls, table: OpenedTable) -> _Look:
        uri = uri_of(table)
        hinders = ["partitions"] if table.metadata().partition_columns else []
        hinders += [_MAPPING] if table.metadata().configuration.get(_MAPPING, _NONE) != _NONE else []
        if hinders:
            what = "a table whose files name all columns"
            raise _not_shown(uri, what, f"one with {', '.join(hinders)}", "query it with Spark")
        return cls(uri, table.version(), pa.schema(table.schema().to_arrow()))

    def rows(self, file: _File, wanted: Mask) -> Iterator[pa.Table]:
        """The wanted rows of a file, with the table's columns; one that the file lacks is null. It reads only the row
        groups that hold some, and stops when it has read enough."""
        name = unquote(file.path)
        try:
            with files_at(self.uri).open(self.uri.resolve(file.path)) as content, parquet_file(content) as opened:
                start = 0
                for n in range(opened.num_row_groups):
                    group = opened.metadata.row_group(n)
                    part = wanted[start : start + group.num_rows]
                    start += group.num_rows
                    if part.any() and self.bytes_left > 0:
                        self.bytes_left -= group.total_byte_size
                        rows = self._as_declared(opened.read_row_group(n, use_threads=False))
                        yield rows.filter(pa.array(part))  # Arrow cannot filter all of the types that files may have
        except FileNotFoundError as error:
            raise _gone(self.uri, self.version, name, error) from error
        except pa.ArrowNotImplementedError as error:
            found = f"{name}: {on_one_line(error)}"
            raise _not_shown(self.uri, "types that Arrow converts", found, "query it with Spark") from error
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.uri, f"{name}: {on_one_line(error)}") from error

    def _as_declared(self, rows: pa.Table) -> pa.Table:
        columns = [
            rows.column(name).cast(type_) if name in rows.column_names else pa.nulls(len(rows), type_)
            for name, type_ in zip(self.schema.names, self.schema.types, strict=True)
        ]
        return pa.table(columns, self.schema)


def _only(table: OpenedTable, mine: Mapping[str, _File], others: Mapping[str, _File]) -> pa.Table:
    look = _Look.at(table)
    found: list[pa.Table] = []
    for name, file in mine.items():
        wanted = file.shown & ~others[name].shown if name in others else file.shown
        if wanted.any():
            found += look.rows(file, wanted)
    if look.bytes_left <= 0:
        limit = f"less than {_BYTES_MAX >> 20} MB of rows that differ"
        raise _not_shown(look.uri, limit, "more", "choose versions that are closer, or query the table with Spark")
    return pa.concat_tables([look.schema.empty_table(), *found])


def _files(table: OpenedTable) -> dict[str, _File]:
    """The data files of a version, by name. Every data file has a name of its own."""
    vectors = _vectors(table)
    columns = ("path", "modification_time", "num_records")
    found = {}
    for path, at, rows in zip(*(table_of(table.get_add_actions()).column(n).to_pylist() for n in columns), strict=True):
        shown = np.ones(rows or 0, dtype=bool)
        vector = vectors.get(_name(path), shown[:0])
        shown[: len(vector)] = vector  # it may end with the last row that it hides
        found[_name(path)] = _File(path, at, shown)
    return found


def _vectors(table: OpenedTable) -> dict[str, Mask]:
    """The rows that stay visible, by the name of the data file that has a deletion vector."""
    try:
        found = table_of(table.deletion_vectors())
    except (OSError, DeltaError) as error:
        raise _gone(uri_of(table), table.version(), "of a deletion vector", error) from error
    paths, shown = (found.column(n).to_pylist() for n in (0, 1))
    return {_name(path): np.asarray(rows, dtype=bool) for path, rows in zip(paths, shown, strict=True)}


def _gone(uri: LakeUri, version: int, name: str, error: Exception) -> LakemarkError:
    """The error for a file that is not there: VACUUM removes those that the newest version does not need."""
    newest = open_table(uri)
    if newest is not None and newest.version() == version:
        return damaged(uri, f"{name}: {on_one_line(error)}")
    action = "choose newer versions (maintenance.vacuum_after_hours in the pipeline file: how long files stay)"
    return _not_shown(uri, f"the file {name}", "none: VACUUM has removed it", action)


def _name(path: str) -> str:
    return PurePosixPath(unquote(path)).name


def _at(uri: LakeUri, version: int) -> OpenedTable:
    newest = open_table(uri)
    if newest is None or not 0 <= version <= newest.version():
        found = "no table" if newest is None else f"{newest.version()} is the newest"
        raise _not_shown(uri, f"version {version}", found, "choose versions of the list")
    table = open_table(uri, version)
    assert table is not None, "its log was there a moment ago"
    return table


def _not_shown(uri: LakeUri, expected: str, found: str, action: str) -> TerminalError:
    return TerminalError(
        what="rows of the table cannot be shown here", where=str(uri), expected=expected, found=found, action=action
    )
