"""Brings a lake to another place: a local one to an object store, and back.

Every pipeline is stopped by a fence first: an event in its ledger says in which lake it lives from here on, and its
ledger elsewhere takes no event any more. An attempt that has begun before may still land in the old lake, and in the
middle of the copying. So ledgers are copied first, then of every pipeline the target (the point), then its other
tables. Then the copy is a state that the protocol knows: a batch is pending, the target has it or not, and the other
tables have at least what the target has. Of every table the log is listed before its data files are, so that no commit
is copied without its files.

Every file is read again in the new place and compared. A copying that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import BinaryIO, cast

from include.lake.files import FileInfo
from include.lake.lakes import MARK, MOVED, forget_move, id_of, marked, moved_to, note, note_move, noted, verify_lake
from include.lake.ledger import Ledger
from include.lake.log_store import LOG
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.participants.catalog import places_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import PipelineMoved
from include.settings import Settings

NOTE = "_lakemark/copy.json"  # in the new lake: what is copied there from where, and which tables are done
_LEDGERS = "_lakemark/ledger"
_NOT_COPIED = (MARK, MOVED, NOTE, "_lakemark/jobs/", "_lakemark/audits/", "_lakemark/probe/")  # of one lake or moment
_AT_ONCE = 8  # files
_CHUNK = 8 << 20  # bytes
_TELL_SECONDS = 5.0
_TRIES = 3  # of a table, from which maintenance may remove files meanwhile
Say = Callable[[str], None]


@dataclass
class LakeCopy:
    """One lake on its way to another place.

    Args:
        pipelines: all whose files are known, for the order of their tables.
    """

    settings: Settings
    to: LakeUri
    pipelines: list[Pipeline]
    say: Say
    _files: int = 0
    _bytes: int = 0
    _told: float = field(default_factory=time.monotonic)

    def run(self) -> JsonObject:
        """Copies, and returns what was copied as data: from, to, tables, files, bytes, seconds. From the first event
        on, the pipelines run in the new lake only.

        Raises:
            TerminalError: the new place cannot take the lake. RetryableError: a file did not arrive as it was, or
            changed all the time. OSError: a store does not answer.
        """
        began = time.monotonic()
        self._verify_places()
        verify_lake(self.to, self.settings.home)
        done, here = self._begun(), marked(self.to)
        note_move(self._from, self.to)
        if sum(_move(ledger, here, self.to) for ledger in _ledgers(self._from)):
            done = []  # they ran here until now
        tables = self._tables()
        for number, table in enumerate(tables, 1):
            if table not in done:
                self.say(f"table {number} of {len(tables)}: {table}")
                self._copy_table(table)
                done.append(table)
                self._note(done)
        self._copy_rest(tables)
        self._note(done, ended=datetime.now(UTC).isoformat(timespec="seconds"))
        return {
            "from": str(self._from),
            "to": str(self.to),
            "tables": len(tables),
            "files": self._files,
            "bytes": self._bytes,
            "seconds": round(time.monotonic() - began, 1),
        }

    def _verify_places(self) -> None:
        one, other = f"{self._from}/", f"{self.to}/"
        if one.startswith(other) or other.startswith(one):
            raise _refused(self.to, "a place apart from the lake", "the lake itself, or one inside the other")
        if not files_at(self._from).exists(self._from):
            raise _refused(self._from, "a lake to copy (LAKEMARK_LAKE)", "nothing")

    def _begun(self) -> list[str]:
        """The tables that are copied already, by a copying that was stopped."""
        found = noted(self.to / NOTE)
        if found is None:
            if any(not file.name.startswith("_lakemark/") for file in files_at(self.to).list(self.to)):
                raise _refused(self.to, "an empty place", "files that no copying of this lake has brought")
            self._note([])
            return []
        if found["lake"] != marked(self._from):
            raise _refused(self.to, "an empty place", f"what was copied from another lake, {found['from']}")
        if found["ended"] is not None:
            raise _refused(self.to, "an empty place", f"this lake, copied by {found['ended']}: set LAKEMARK_LAKE to it")
        return list(found["tables"])

    def _note(self, tables: list[str], ended: str | None = None) -> None:
        said = {"from": str(self._from), "lake": marked(self._from), "tables": tables, "ended": ended}
        note(self.to / NOTE, said)

    def _tables(self) -> list[str]:
        """All tables by their names below the lake, in the order in which they are copied."""
        everywhere = _tables_below(self._from)
        ledgers = [table for table in everywhere if table.startswith(_LEDGERS)]
        ordered = dict.fromkeys(chain(ledgers, self._of_pipelines(), everywhere))
        return [table for table in ordered if not f"{table}/".startswith(_NOT_COPIED)]

    def _of_pipelines(self) -> Iterator[str]:
        for pipeline in self.pipelines:
            for half in reversed(pipeline.halves):  # merging reads what landing writes
                places = [Tables.of(self.settings, half).target, *sorted(places_of(self.settings, half))]
                there = (place for place in places if log_store_of(place).exists())
                yield from (str(place).removeprefix(f"{self._from}/") for place in there)

    def _copy_table(self, table: str) -> None:
        source, log = files_at(self._from), f"{table}/{LOG}"
        for tries_left in reversed(range(_TRIES)):
            of_log = [_below(log, file) for file in source.list(self._from / log)]
            everything = (_below(table, file) for file in source.list(self._from / table))
            try:
                self._copy(file for file in everything if not file.name.startswith(f"{log}/"))
                self._copy(sorted(of_log, key=lambda file: file.name))  # `_last_checkpoint` comes last
                return
            except FileNotFoundError:
                if not tries_left:
                    raise
                self.say(f"{table}: files were removed meanwhile, so it is looked through again")

    def _copy_rest(self, tables: list[str]) -> None:
        """Files that belong to no table."""
        in_table = tuple(f"{table}/" for table in tables)
        found = files_at(self._from).list(self._from)
        self._copy(file for file in found if not file.name.startswith((*in_table, *_NOT_COPIED)))

    def _copy(self, files: Iterable[FileInfo]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as several:
            for file in several.map(self._copy_file, [file for file in files if not file.name.endswith(".tmp")]):
                self._files, self._bytes = self._files + 1, self._bytes + file.size
                if time.monotonic() - self._told > _TELL_SECONDS:
                    self._told = time.monotonic()
                    self.say(f"{self._files:,} files, {self._bytes / 1e6:,.0f} MB")

    def _copy_file(self, file: FileInfo) -> FileInfo:
        old, new = self._from / file.name, self.to / file.name
        for _ in range(_TRIES):
            there = _hash_of(new)
            if there is not None and there == _hash_of(old):
                return file
            with files_at(old).open(old) as content:
                read = _Hashed(content)
                files_at(new).write(new, cast(BinaryIO, read))
            if _hash_of(new) == read.hash.hexdigest():
                return file
        raise RetryableError(
            what="a file did not arrive as it was",
            where=str(new),
            expected=f"the content of {old}",
            found=f"another content, {_TRIES} times",
            action="run the same command again; if it persists, look at the network and at the store",
        )

    @property
    def _from(self) -> LakeUri:
        return self.settings.lake


def reopen(settings: Settings) -> int:
    """Lets the pipelines run in this lake again, though a copying has begun. Returns how many.

    Raises:
        TerminalError: the copying has ended, so they may run in the new lake already.
    """
    to = moved_to(settings.lake)
    if to is not None and (said := noted(to / NOTE)) is not None and said["ended"] is not None:
        raise TerminalError(
            what="this lake was copied, and its pipelines live in the copy",
            where=str(settings.lake),
            expected="a copying that has not ended",
            found=f"one that ended at {said['ended']}",
            action=f"set LAKEMARK_LAKE={to}; to come back, `lakemark lake copy /an/empty/place` there",
        )
    here, count = marked(settings.lake), 0
    for ledger in _ledgers(settings.lake):
        count += _move(ledger, here, settings.lake)
    forget_move(settings.lake)
    return count


def _ledgers(lake: LakeUri) -> Iterator[Ledger]:
    yield from (Ledger(lake / _LEDGERS / name) for name in _tables_below(lake / _LEDGERS))


def _tables_below(folder: LakeUri) -> list[str]:
    """The tables below a folder, by their names there, in order."""
    found = (file.name.partition(f"/{LOG}/") for file in files_at(folder).list(folder))
    return sorted({table for table, is_log, _ in found if is_log})


def _move(ledger: Ledger, lake: str, to: LakeUri) -> bool:
    """Records where a pipeline lives. False if its ledger says so already."""
    moved = ledger.recent().moved
    if lake == (moved.lake if moved else id_of(ledger.lake)):
        return False
    ledger.append(lambda state: [PipelineMoved(state.generation, lake, str(to))])
    return True


def _below(folder: str, file: FileInfo) -> FileInfo:
    return replace(file, name=f"{folder}/{file.name}")


class _Hashed:
    """Reads a file, and knows what it has read."""

    def __init__(self, content: BinaryIO) -> None:
        self._content, self.hash = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        found = self._content.read(size)
        self.hash.update(found)
        return found


def _hash_of(file: LakeUri) -> str | None:
    try:
        with files_at(file).open(file) as content:
            read = _Hashed(content)
            while read.read(_CHUNK):
                pass
    except FileNotFoundError:
        return None
    return read.hash.hexdigest()


def _refused(where: LakeUri, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="the lake cannot be copied",
        where=str(where),
        expected=expected,
        found=found,
        action="choose another place, or empty that one if nobody needs what is there",
    )
