"""Checks savepoints: quickly, whether their files are there; or thoroughly, whether they are what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from include.checkpoints.shelf import OnShelf, on_shelf, taken
from include.lake.arrow import parquet_file
from include.lake.damage import on_one_line
from include.lake.log_store import LOG, commit_file
from include.lake.merge.frozen import names_of, thawed
from include.lake.merge.unfit import NoLogError, UnfitError
from include.lake.stores import files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TableDamaged, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.savepoints import LISTS, TABLES, TEXTS, Begun, SavedTable, Savepoint
from include.savepoints.fingerprints import Fingerprint, fingerprints, read
from include.settings import Settings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Seen:
    """A savepoint as it is now."""

    on_shelf: OnShelf
    lost: str | None  # the first file that is not there, or what else makes it worth nothing; None: nothing
    moved_on: str | None = None  # a table that is another one now: it can be cloned, but not restored

    is_brought: bool = False  # it is none: it holds another pipeline's rows, for a promotion that did not end

    @property
    def is_ended(self) -> bool:
        """Whether it was made to its end, and is a savepoint of the pipeline."""
        return self.on_shelf.savepoint is not None and not self.is_brought

    def to_json(self) -> JsonObject:
        found = self.on_shelf
        begun = {} if found.begun is None else found.begun.to_json()
        whole = begun if found.savepoint is None else found.savepoint.to_json()
        return {
            **whole,
            "name": found.name,
            "is_ended": self.is_ended,
            "lost": self.lost,
            "moved_on": self.moved_on,
        }


@dataclass(frozen=True)
class Report:
    """What a check has found."""

    savepoint: Savepoint
    files: int  # that were looked at
    bytes: int
    problems: list[str]
    is_deep: bool

    def to_json(self) -> JsonObject:
        begun = self.savepoint.begun
        named = {"pipeline": begun.pipeline, "savepoint": begun.name, "checkpoint": begun.checkpoint.name}
        looked = {"files": self.files, "bytes": self.bytes, "deep": self.is_deep}
        return {**named, **looked, "problems": self.problems}


def seen(settings: Settings, pipeline: Pipeline) -> list[Seen]:
    """All savepoints of a pipeline, oldest first. Every folder is listed once, and no data file is read."""
    places = _Places(settings, pipeline)
    return [
        Seen(one, places.lost(one), places.moved_on(one), is_brought=one.brought_from(pipeline) is not None)
        for one in on_shelf(settings, pipeline)
    ]


def newest_whole(settings: Settings, pipeline: Pipeline) -> str:
    """The name of the newest savepoint that is whole. Raises TerminalError: there is none."""
    names = [one.on_shelf.name for one in seen(settings, pipeline) if one.lost is None]
    if not names:
        raise TerminalError(
            what="there is no savepoint that is whole",
            where=pipeline.name,
            expected="one at least",
            found="none",
            action=f"make one: `lakemark savepoint create {pipeline.name} --name NAME`",
        )
    return names[-1]


def checked(settings: Settings, pipeline: Pipeline, name: str, is_deep: bool, say: Say = lambda _: None) -> Report:
    """Checks one savepoint against its manifest.

    Args:
        is_deep: all files are read: their hashes are compared, if the savepoint has them, and all rows are decoded and
            counted.

    Raises:
        TerminalError: see `taken`. OSError: the store does not answer.
    """
    found, folder = taken(settings, pipeline, name), Tables.of(settings, pipeline).savepoints / name
    places, count, size = _Places(settings, pipeline), 0, 0
    problems: list[str] = []
    for text, digest in found.texts.items():
        problems += _of_file(folder / TEXTS / text, text, digest)
    for table, saved in found.tables.items():
        if saved.folder is None:
            continue
        say(f"{table}: {saved.files:,} files, {saved.bytes / 1e6:,.1f} MB")
        root = places.root(found.begun, table)
        problems += [f"{table}: {text}" for text in _of_table(folder, saved, root, is_deep=is_deep, say=say)]
        count, size = count + saved.files, size + saved.bytes
    return Report(found, files=count, bytes=size, problems=problems, is_deep=is_deep)


@dataclass(frozen=True)
class _Places:
    """Where the data files of savepoints are, and which of them are there."""

    settings: Settings
    pipeline: Pipeline
    there: dict[LakeUri, set[str]] = field(default_factory=dict)

    @cached_property
    def ids(self) -> dict[str, str | None]:
        """The ids of the pipeline's tables; None: there is no such table."""
        logs = {one.name: TableLog.open(one.uri(self.settings)) for one in Catalog.of(self.pipeline).participants}
        return {name: None if log is None else log.table_id for name, log in logs.items()}

    def moved_on(self, found: OnShelf) -> str | None:
        stood = {} if found.savepoint is None else found.savepoint.tables
        other = (
            name
            for name, saved in stood.items()
            if saved.folder is not None and saved.position.identity not in (None, self.ids.get(name))
        )
        return next(other, None)

    def root(self, begun: Begun, table: str) -> LakeUri | None:
        """The folder that the files of a table are in; None: the pipeline no longer has it."""
        if begun.is_copy:
            return Tables.of(self.settings, self.pipeline).saved(begun.name, table)
        now = {one.name: one.uri(self.settings) for one in Catalog.of(self.pipeline).participants}
        return now.get(table)

    def lost(self, found: OnShelf) -> str | None:
        if (new := found.brought_from(self.pipeline)) is not None:
            return f"rows of {new} for its promotion, which did not end: run that again, or drop this"
        if found.savepoint is None:
            return found.damage or "it was begun and not ended"
        begun = found.savepoint.begun
        for table, saved in found.savepoint.tables.items():
            if saved.folder is not None and (lost := self._lost_of(begun, table, saved.folder)) is not None:
                return f"{table}: {lost}"
        return None

    def _lost_of(self, begun: Begun, table: str, folder: str) -> str | None:
        if (root := self.root(begun, table)) is None:
            return "the pipeline file no longer names this table"
        if root not in self.there:
            self.there[root] = {file.name for file in files_at(root).list(root)}
        shelf = Tables.of(self.settings, self.pipeline).savepoints
        try:
            names = read(_content(shelf / begun.name / LISTS / f"{folder}.json"))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            return f"the list of its files: {on_one_line(error)}"
        return next((name for name in names if name not in self.there[root]), None)


def _of_table(folder: LakeUri, saved: SavedTable, root: LakeUri | None, is_deep: bool, say: Say) -> Iterator[str]:
    assert saved.folder is not None, "the caller has checked it"
    own, list_ = folder / TABLES / saved.folder, folder / LISTS / f"{saved.folder}.json"
    wrong = [*_of_file(own / LOG / commit_file(0), "its log", saved.log), *_of_file(list_, "its list", saved.listed)]
    yield from wrong
    if root is None:
        yield "the pipeline file no longer names this table"
    if wrong or root is None:
        return
    try:
        names = names_of(thawed(own, root))
    except (NoLogError, UnfitError, TableDamaged) as error:
        yield on_one_line(error)
        return
    known = read(_content(list_))
    if names.keys() != known.keys():
        yield "its log and its list name different files"
    now = fingerprints({name: root / name for name in known}, is_deep, say)
    broken = {name: text for name, one in known.items() if (text := _differs(one, now[name])) is not None}
    yield from (f"{name}: {text}" for name, text in broken.items())
    if is_deep:
        yield from _of_rows(root, [name for name in known if name not in broken])


def _differs(known: Fingerprint, now: Fingerprint | None) -> str | None:
    return "it is gone" if now is None else known.differs_from(now)


def _of_rows(root: LakeUri, names: Sequence[str]) -> Iterator[str]:
    """Decodes all rows of the data files, and counts them."""
    for name in names:
        if not name.endswith(".parquet"):
            continue
        with files_at(root).open(root / name) as content:
            try:
                file = parquet_file(content)
                rows = sum(batch.num_rows for batch in file.iter_batches(use_threads=False))
            except (OSError, ValueError) as error:  # pyarrow's own are both
                yield f"{name}: {on_one_line(error)}"
                continue
        if rows != file.metadata.num_rows:
            yield f"{name}: {rows:,} rows, and {file.metadata.num_rows:,} were written"


def _of_file(file: LakeUri, name: str, digest: str | None) -> Iterator[str]:
    try:
        found = hashlib.sha256(_content(file)).hexdigest()
    except FileNotFoundError:
        yield f"{name}: it is gone"
        return
    if found != digest:
        yield f"{name}: another content than was written"


def _content(file: LakeUri) -> bytes:
    with files_at(file).open(file) as found:
        return found.read()
