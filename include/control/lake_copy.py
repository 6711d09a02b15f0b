"""Brings a lake to another place: a local one to an object store, and back.

Every pipeline is stopped by a fence first: an event in its ledger says in which lake it lives from here on, and its
ledger elsewhere takes no event any more. An attempt that has begun before may still land in the old lake, and in the
middle of the copying. So ledgers are copied first, then of every pipeline the target (the point), then its other
tables. Then the copy is a state that the protocol knows: a batch is pending, the target has it or not, and the other
tables have at least what the target has. Of every table the log is listed before its data files are, so that no commit
is copied without its files.

Every file is read again in the new place and compared. A copying that was stopped goes on where it was, or begins anew
if the lake has lived since. What the new place has and the lake has not is removed there: a commit of a table that was
made anew would be read. Until the copying has ended, the new lake takes no event.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain

from include.control.lake_homes import LEDGERS, home_of, ledgers_in, lives_in, move, tables_below
from include.lake.copying import copy_file
from include.lake.files import FileInfo, Files
from include.lake.lakes import (
    COPIED,
    COPYINGS,
    MARK,
    MOVED,
    copy_ended,
    end_copy,
    end_of_copy,
    marked,
    moved_to,
    note,
    note_first,
    note_move,
    noted,
    verify_apart,
    verify_lake,
    verify_whole,
)
from include.lake.log_store import LOG
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.participants.catalog import places_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

_PROBE = "_lakemark/probe/"
# Of one lake, or of a moment:
_NOT_COPIED = (MARK, MOVED, COPIED, f"{COPYINGS}/", "_lakemark/jobs/", "_lakemark/audits/", _PROBE)
_OF_ONE_STORE = re.compile(r"\.tmp$|(^|/)\.[^/]*\.crc$")  # scratch files, and Hadoop's sums of local files
_AT_ONCE = 8  # files
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
        is_on_its_way = self._verify_lives_here()
        if (found := self._begun()) is None:
            marked(self._from)  # by which links to this lake are noticed
            verify_apart(self.to)
        verify_lake(self.to, self.settings.home)
        there = marked(self.to)
        at_home = [ledger for ledger in ledgers_in(self._from) if home_of(ledger) != there]
        if found is None or at_home or not is_on_its_way or end_of_copy(self.to, found["copying"]) is not None:
            is_first, found = found is None, {"copying": uuid.uuid4().hex, "tables": []}
            self._note(found, is_first)
        done = found["tables"]
        note_move(self._from, self.to)
        for ledger in at_home:
            move(ledger, there, self.to)
        tables = self._tables()
        for number, table in enumerate(tables, 1):
            if table not in done:
                self.say(f"table {number} of {len(tables)}: {table}")
                self._copy_table(table)
                done.append(table)
                self._note(found)
        self._copy_rest(tables)
        if not end_copy(self.to, found["copying"], is_whole=True)["is_whole"]:
            raise TerminalError(
                what="the copying was taken back while it went on",
                where=str(self.to),
                expected=f"that {self._from} stays closed until its copy is whole",
                found="`lakemark lake reopen`",
                action=f"`lakemark lake copy {self.to}` copies what has come since, too",
            )
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

    def _verify_lives_here(self) -> bool:
        """Whether a copying to the new place has begun, and nobody has taken it back.

        Raises:
            TerminalError: the lake's pipelines live in another one, or are about to.
        """
        verify_whole(self._from)
        if (elsewhere := moved_to(self._from)) is None:
            return False
        if elsewhere != self.to:
            if (ended := copy_ended(elsewhere)) is not None:
                raise lives_in(self._from, elsewhere, ended)
            raise TerminalError(
                what="this lake is on its way to another place",
                where=str(self._from),
                expected=f"no copying that has begun, or one to {self.to}",
                found=f"one to {elsewhere} that has not ended",
                action=f"`lakemark lake copy {elsewhere}` ends it; or `lakemark lake reopen` takes it back first",
            )
        return True

    def _begun(self) -> JsonObject | None:
        """What is noted of a copying that was stopped: copying (its id), tables (that are copied); None: the place is
        empty."""
        found = noted(self.to / COPIED)
        if found is None:
            if any(not file.name.startswith((MARK, _PROBE)) for file in self._there.list(self.to)):
                raise _refused(self.to, "an empty place", "files that no copying of this lake has brought")
            return None
        if found["lake"] != marked(self._from):
            raise _refused(self.to, "an empty place", f"what was copied from another lake, {found['from']}")
        if (ended := copy_ended(self.to)) is not None:
            raise _refused(self.to, "an empty place", f"this lake, copied by {ended}: set LAKEMARK_LAKE to it")
        return found

    def _note(self, said: JsonObject, is_first: bool = False) -> None:
        """Notes a copying. Args: is_first: the place was empty, and is taken by this."""
        said = {**said, "from": str(self._from), "lake": marked(self._from)}
        if not is_first:
            note(self.to / COPIED, said)
        elif not note_first(self.to / COPIED, said):
            raise _refused(self.to, "an empty place", "a copying that began there a moment ago")

    def _tables(self) -> list[str]:
        """All tables by their names below the lake, in the order in which they are copied."""
        everywhere = tables_below(self._from)
        ledgers = [table for table in everywhere if table.startswith(LEDGERS)]
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
            of_data = [file for file in everything if not file.name.startswith(f"{log}/")]
            try:
                self._copy(of_data)
                self._copy(sorted(of_log, key=lambda file: file.name))  # `_last_checkpoint` comes last
                self._remove_others([*of_data, *of_log], (_below(table, f) for f in self._there.list(self.to / table)))
                return
            except FileNotFoundError as error:
                if not tries_left:
                    raise RetryableError(
                        what="files of a table are removed while it is copied",
                        where=str(self._from / table),
                        expected=f"that none is removed, in one of {_TRIES} tries",
                        found=str(error),
                        action="end the maintenance that removes them, and run the same command again; or `lakemark "
                        "lake reopen` lets the pipelines run here again",
                    ) from error
                self.say(f"{table}: files were removed meanwhile, so it is looked through again")

    def _copy_rest(self, tables: list[str]) -> None:
        """Files that belong to no table."""
        elsewhere = (*(f"{table}/" for table in tables), *_NOT_COPIED)
        found = [f for f in files_at(self._from).list(self._from) if not f.name.startswith(elsewhere)]
        self._copy(found)
        self._remove_others(found, (f for f in self._there.list(self.to) if not f.name.startswith(elsewhere)))

    def _remove_others(self, files: Iterable[FileInfo], there: Iterable[FileInfo]) -> None:
        """Removes what the new place has and the lake has not: an earlier copying has brought it."""
        names = {file.name for file in files}
        for file in there:
            if file.name not in names:
                self._there.remove(self.to / file.name)

    def _copy(self, files: Iterable[FileInfo]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as several:
            for file in several.map(self._copy_file, [file for file in files if not _OF_ONE_STORE.search(file.name)]):
                self._files, self._bytes = self._files + 1, self._bytes + file.size
                if time.monotonic() - self._told > _TELL_SECONDS:
                    self._told = time.monotonic()
                    self.say(f"{self._files:,} files, {self._bytes / 1e6:,.0f} MB")

    def _copy_file(self, file: FileInfo) -> FileInfo:
        copy_file(self._from / file.name, self.to / file.name)
        return file

    @property
    def _there(self) -> Files:
        return files_at(self.to)

    @property
    def _from(self) -> LakeUri:
        return self.settings.lake


def _below(folder: str, file: FileInfo) -> FileInfo:
    return replace(file, name=f"{folder}/{file.name}")


def _refused(where: LakeUri, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="the lake cannot be copied",
        where=str(where),
        expected=expected,
        found=found,
        action="choose another place, or empty that one if nobody needs what is there",
    )
