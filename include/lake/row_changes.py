"""What commits of a table have changed: the rows that are gone since, and those that have come. Needs no Spark.

A commit names the files that it removes and those that it adds, each with the deletion vector that hides some of its
rows (Delta protocol, "Add File and Remove File"). So the commits alone say what has changed; no version is opened.
Whether a writer updates rows in place (by deletion vectors), copies files, or replaces all of them: the difference is
the same. A row that was only copied is among both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from include.lake.arrow import parquet_file
from include.lake.damage import damaged, on_one_line
from include.lake.merge.deletion_vectors import NO_ROWS, read_vectors, vector_id
from include.lake.merge.snapshot import Snapshot, actions_in
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at, log_store_of
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject

Mask = npt.NDArray[np.bool_]  # one per row of a data file: whether it is meant
_MAPPING, _NONE = "delta.columnMapping.mode", "none"
_ABSENT = None  # in place of a file's state: the file is no part of the table


@dataclass(frozen=True)
class _State:
    """A file as a version has it."""

    vector: JsonObject | None  # the descriptor of what hides its rows


@dataclass
class _File:
    before: _State | None
    now: _State | None

    @property
    def has_changed(self) -> bool:
        if self.before is None or self.now is None:
            return self.before is not self.now
        return vector_id(self.before.vector) != vector_id(self.now.vector)


@dataclass(frozen=True)
class RowChanges:
    """What has changed between two versions."""

    uri: LakeUri
    until: int  # the later version
    _files: dict[str, _File] = field(repr=False)
    _instead: str

    @classmethod
    def between(cls, log: TableLog, after: int, until: int, instead: str) -> RowChanges | None:
        """What the commits after a version have changed, up to another one. None: log clean-up has removed one of them.

        Args:
            instead: what a person can do where it cannot be told, for errors.

        Raises:
            TableDamaged: a commit is not readable. TerminalError: the table's files do not name all columns.
        """
        versions = range(after + 1, until + 1)
        contents = log_store_of(log.uri).read_all(versions)
        if None in contents:
            return None
        return cls._in(log, {version: said or b"" for version, said in zip(versions, contents, strict=True)}, instead)

    @classmethod
    def that_come(cls, log: TableLog, commit: bytes, instead: str) -> RowChanges:
        """What the commit after a version would change. Args: commit: what it says. instead: as for `between`."""
        return cls._in(log, {log.version + 1: commit}, instead)

    @classmethod
    def _in(cls, log: TableLog, commits: Mapping[int, bytes], instead: str) -> RowChanges:
        files: dict[str, _File] = {}
        found = cls(log.uri, max(commits, default=log.version), files, instead)
        for version, content in commits.items():
            told = actions_in(log.uri, version, content)
            actions = [(kind, action) for one in told for kind, action in one.items()]
            found._verify_columns_named(log.configuration, (told for kind, told in actions if kind == "add"))
            _take(files, actions)
        for path in [path for path, file in files.items() if not file.has_changed]:
            del files[path]
        return found

    @classmethod
    def whole(cls, table: Snapshot, instead: str) -> RowChanges:
        """All rows of a version, as if they had come at once. Args: instead: as for `between`."""
        states = {file["path"]: _State(file.get("deletionVector")) for file in table.files.values()}
        files = {path: _File(before=_ABSENT, now=now) for path, now in states.items()}
        found = cls(table.uri, table.version, files, instead)
        found._verify_columns_named(table.metadata.get("configuration") or {}, table.files.values())
        return found

    @property
    def is_empty(self) -> bool:
        """Whether no file has changed, and so no row."""
        return not self._files

    @property
    def may_hold_copies(self) -> bool:
        """Whether a row may be among both, since its file was replaced as a whole."""
        gone = any(file.now is _ABSENT for file in self._files.values())
        return gone and any(file.before is _ABSENT for file in self._files.values())

    def gone(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows that only the earlier version has.

        Args:
            columns: their names and types; what a file lacks is null. Of a struct, only the fields of its type here
                are read.

        Raises:
            TerminalError: VACUUM has removed a file. TableDamaged: a file is not readable.
        """
        return self._rows(columns, is_now=False)

    def come(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows that only the later version has. As `gone`."""
        return self._rows(columns, is_now=True)

    def _rows(self, columns: pa.Schema, is_now: bool) -> Iterator[pa.RecordBatch]:
        both = self._files.items()
        pairs = {path: (f.now, f.before) if is_now else (f.before, f.now) for path, f in both}
        wanted = {path: (mine, other) for path, (mine, other) in pairs.items() if mine is not _ABSENT}
        hidden = self._hidden([state for pair in wanted.values() for state in pair])
        for place, (path, (_, other)) in enumerate(wanted.items()):
            mine_hides, other_hides = hidden[2 * place], hidden[2 * place + 1]
            if other is _ABSENT:
                yield from self._read(path, columns, hides=mine_hides)
            elif rows := other_hides - mine_hides:
                yield from self._read(path, columns, only=rows)

    def _verify_columns_named(self, configuration: Mapping[str, str], files: Iterable[JsonObject]) -> None:
        """Else a column that a file does not name would look as if it were null."""
        if (mode := configuration.get(_MAPPING, _NONE)) != _NONE:
            raise self._not_told(f"a table without {_MAPPING}", mode)
        if any(file.get("partitionValues") for file in files):
            raise self._not_told("a table without partitions", "partitions")

    def _not_told(self, expected: str, found: str) -> TerminalError:
        return TerminalError(
            what="it cannot be told which rows of a table have changed",
            where=str(self.uri),
            expected=expected,
            found=found,
            action=self._instead,
        )

    def _hidden(self, states: Sequence[_State | None]) -> list[BitMap64]:
        try:
            return read_vectors(self.uri, [state.vector if state is not None else None for state in states])
        except UnfitError as error:
            raise self._not_told("deletion vectors as Spark writes them", str(error)) from error

    def _read(
        self, path: str, columns: pa.Schema, hides: BitMap64 = NO_ROWS, only: BitMap64 | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file, one row group at a time; groups without any are not read."""
        try:
            with files_at(self.uri).open(self.uri.resolve(path)) as content, parquet_file(content) as opened:
                leaves = _leaves(columns)
                mask, start = _mask(opened.metadata.num_rows, hides, only), 0
                for number in range(opened.num_row_groups):
                    rows = opened.metadata.row_group(number).num_rows
                    meant = mask[start : start + rows]
                    start += rows
                    if meant.any():
                        group = opened.read_row_group(number, columns=leaves, use_threads=False)
                        group = group if meant.all() else group.filter(pa.array(meant))
                        yield from _shaped(group, columns).to_batches()
        except FileNotFoundError as error:
            expected = f"the file {unquote(path)} of version {self.until}"
            raise self._not_told(expected, "none: VACUUM has removed it") from error
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.uri, f"{unquote(path)}: {on_one_line(error)}") from error


def _take(files: dict[str, _File], actions: Sequence[tuple[str, JsonObject]]) -> None:
    """Adds what a commit does to each file. A commit may name a file twice: it removes the file with one vector, and
    adds it with another one. Maintenance changes files and no row, and says so."""
    changing = [(kind, told) for kind, told in actions if told.get("dataChange", True)]
    for told in (told for kind, told in changing if kind == "remove"):
        state = _State(told.get("deletionVector"))
        files.setdefault(told["path"], _File(before=state, now=_ABSENT)).now = _ABSENT
    for told in (told for kind, told in changing if kind == "add"):
        files.setdefault(told["path"], _File(before=_ABSENT, now=_ABSENT)).now = _State(told.get("deletionVector"))


def _mask(rows: int, hides: BitMap64, only: BitMap64 | None) -> Mask:
    """The rows of a file that are meant. Args: rows: how many it has."""
    chosen = hides if only is None else only
    mask = np.full(rows, only is None)
    mask[np.array(chosen.to_array(), dtype=np.int64)] = only is not None
    return mask


def _leaves(columns: pa.Schema) -> list[str]:
    """What is to be read of a file, as Arrow names it; what is not there counts for nothing."""
    return [
        leaf
        for field in columns
        for leaf in (
            [f"{field.name}.{part.name}" for part in field.type] if pa.types.is_struct(field.type) else [field.name]
        )
    ]


def _shaped(group: pa.Table, columns: pa.Schema) -> pa.Table:
    there = set(group.column_names)
    found = [
        _as(group.column(field.name).combine_chunks(), field.type)
        if field.name in there
        else pa.nulls(len(group), field.type)
        for field in columns
    ]
    return pa.Table.from_arrays(found, schema=columns)


def _as(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values in another type. A file may lack fields of a struct that the table has got since."""
    if values.type == wanted:
        return values
    if not pa.types.is_struct(wanted):
        return values.cast(wanted)
    parts = [
        _as(pc.struct_field(values, part.name), part.type)
        if values.type.get_field_index(part.name) >= 0
        else pa.nulls(len(values), part.type)
        for part in wanted
    ]
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=pc.is_null(values))
