"""Makes a savepoint of a checkpoint. Needs no Spark.

Order: record what is decided, then the tables' files (of a copy) and logs, the pipeline's own files, and the manifest.
If it is killed anywhere and called again, it reaches the same end. Batches go on meanwhile: a checkpoint never changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from include.checkpoints.listing import checkpoints_in, position_at
from include.checkpoints.reading import Cut
from include.checkpoints.shelf import looked_at
from include.control.coordinator import Coordinator
from include.control.turns import turn
from include.fault_points import fault_point
from include.lake.carrying import carry
from include.lake.log_store import LOG, commit_file
from include.lake.merge.frozen import freeze, names_of
from include.lake.merge.past import rows_in
from include.lake.merge.snapshot import Snapshot
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.participants.program import verify_file_written
from include.participants.versions import whole_version
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint, named, verify_complete
from include.protocol.errors import CountsDisagree, TerminalError
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Where
from include.protocol.reading_began import reading_began
from include.protocol.restoring import file_brought_by
from include.protocol.savepoints import (
    BEGUN,
    LISTS,
    MANIFEST,
    TABLES,
    TEXTS,
    Begun,
    SavedTable,
    Savepoint,
    folder_of,
    verify_name,
    verify_same,
)
from include.savepoints.fingerprints import Fingerprint, fingerprints, written
from include.savepoints.texts import texts_of
from include.settings import Settings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Making:
    """Makes one savepoint.

    Args:
        name: its name. at: a checkpoint's name; None: where the tables stand now. is_copy: it gets data files of its
            own; else it pins those of the tables. is_deep: all files are read, and their hashes kept. reason,
            created_by: a person's. say: is told how far it is. shelf: the pipeline on whose shelf a copy lies; None:
            its own. called: what tables are called there, if not as in this pipeline.
    """

    settings: Settings
    pipeline: Pipeline
    name: str
    at: str | None = None
    is_copy: bool = False
    is_deep: bool = False
    reason: str = ""
    created_by: str = ""
    say: Say = lambda _: None
    shelf: Pipeline | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    _versions: dict[str, Snapshot | None] = field(default_factory=dict, init=False)  # by the participant's name

    def make(self) -> Savepoint:
        """Makes it, or ends one that was begun and not ended.

        Raises:
            TerminalError: the name is taken, there is no such checkpoint, it is broken, or a table's log is none that
            Lakemark can read, or VACUUM has removed a file meanwhile. OSError: the store refuses.
        """
        verify_name(self.pipeline.name, self.name)
        found = looked_at(self._shelf, self.name)
        foreign = found.begun is not None and found.begun.pipeline != self.pipeline.name
        if found.savepoint is not None or found.damage is not None or foreign:
            raise self._taken(found.begun)
        with self._turn():
            return self._made(found.begun)

    def _made(self, begun: Begun | None) -> Savepoint:
        begun = begun or self._decided()
        wanted = None if self.at is None else self._checkpoint().name
        verify_same(begun, self.is_copy, self.is_deep, wanted)
        participants = Catalog.of(self.pipeline).participants
        tables = {self._called(one): self._saved(one, begun.checkpoint) for one in participants}
        savepoint = Savepoint(begun, tables, dict(self._texts()))
        content = json.dumps(savepoint.to_json(), indent=2).encode()
        if not files_at(self._folder).publish(self._folder / MANIFEST, content):
            raise self._taken(begun)
        fault_point("savepoint.published")
        return savepoint

    def _turn(self) -> AbstractContextManager[None]:
        """No maintenance removes an old checkpoint's files meanwhile. Those of the newest one are not old enough."""
        if self.at is None:
            return nullcontext()
        holder = f"the savepoint {self.name}"  # who runs it again after it was killed has the same
        return turn(Coordinator(self.settings, self.pipeline).ledger, holder, over="files")

    def _decided(self) -> Begun:
        ledger, checkpoint = Coordinator(self.settings, self.pipeline).ledger, self._checkpoint()
        events = ledger.events()
        state = fold(events)
        self._verify_files_of(checkpoint, state)
        begun = Begun(
            pipeline=self.pipeline.name,
            name=self.name,
            reason=self.reason,
            created_by=self.created_by,
            created_at=datetime.now(UTC).isoformat(),
            is_copy=self.is_copy,
            checkpoint=checkpoint,
            code_version=self.settings.code_version,
            is_deep=self.is_deep,
            first=reading_began(events, state),
            sinks={name: one for name, one in state.sinks.items() if name in self.pipeline.sinks},
        )
        verify_complete(begun.checkpoint)
        for participant in Catalog.of(self.pipeline).participants:
            self._version(participant, begun.checkpoint)  # what cannot be saved begins nothing
        files_at(self._folder).make_folder(self._folder)
        content = json.dumps(begun.to_json(), indent=2).encode()
        if not files_at(self._folder).publish(self._folder / BEGUN, content):
            other = looked_at(self._shelf, self.name).begun
            assert other is not None, "it has just been written"
            begun = other
        fault_point("savepoint.begun")
        return begun

    def _verify_files_of(self, checkpoint: Checkpoint, state: LedgerState) -> None:
        """Checks that the pipeline's files, which the savepoint keeps, are not known to be those of other rows."""
        told = [one for one in state.generations if one.rules is not None]
        if not told:
            return
        there = find_pipeline(self.pipeline.name, self.settings.pipelines, self.settings.environment)
        verify_file_written(self.settings, there, state)
        generation, now = checkpoint.key.generation, file_brought_by(told, state.generation)
        if self.at is not None and generation > 0 and file_brought_by(told, generation) != now:
            raise TerminalError(
                what="the pipeline's files are not those of this checkpoint: others came with other rows",
                where=f"{self.pipeline.name}, {checkpoint.in_words}",
                expected=f"one of the files that generation {now} has brought" if now else "one of the first files",
                found=f"one of generation {generation}",
                action="a savepoint that was made before has the files, too: see `lakemark savepoint list "
                f"{self.pipeline.name}`; or go back to the checkpoint alone, without files: `lakemark checkpoint "
                f"restore {self.pipeline.name} {checkpoint.name} --reason ...`",
            )

    def _checkpoint(self) -> Checkpoint:
        if self.at is not None:
            return named(self.pipeline.name, checkpoints_in(self.settings, self.pipeline), self.at)
        coordinator = Coordinator(self.settings, self.pipeline)
        with suppress(CountsDisagree):  # it is recorded all the same
            coordinator.settle_pending()
        return Cut.at(self.settings, self.pipeline, None).checkpoint

    def _version(self, participant: Participant, checkpoint: Checkpoint) -> Snapshot | None:
        """The table at the checkpoint, with all of its files; None: no batch had written it yet."""
        if (name := participant.name) not in self._versions:
            uri, position = participant.uri(self.settings), position_at(checkpoint, participant)
            where, places = Where(self.pipeline.name, name), Tables.of(self.settings, self.pipeline)
            frozen = partial(places.frozen, position.identity)
            self._versions[name] = whole_version(uri, position, where, frozen=frozen)
        return self._versions[name]

    def _saved(self, participant: Participant, checkpoint: Checkpoint) -> SavedTable:
        """Saves one table."""
        position = position_at(checkpoint, participant)
        folder = folder_of(self._called(participant))
        if (past := self._version(participant, checkpoint)) is None:
            return SavedTable(position, None)
        self.say(f"{participant.name}: version {position.version}, {len(past.files):,} data files")
        own = self._folder / TABLES / folder
        names = names_of(past)
        try:
            if self.is_copy:
                carry(names, past.uri, own, self.say)
        except FileNotFoundError as error:
            raise self._overtaken(participant, str(error)) from error
        freeze(past, own, self.is_copy)
        root = own if self.is_copy else past.uri
        prints = fingerprints({name: root / name for name in names}, self.is_deep, self.say)
        there = {name: one for name, one in prints.items() if one is not None}
        if (gone := next((name for name in names if name not in there), None)) is not None:
            raise self._overtaken(participant, gone)
        fault_point("savepoint.table_saved")
        return SavedTable(
            position,
            folder,
            files=len(names),
            bytes=sum(names.values()),
            rows=rows_in(past),
            schema=past.metadata["schemaString"],
            log=hashlib.sha256(_content(own / LOG / commit_file(0))).hexdigest(),
            listed=self._listed(folder, there),
        )

    def _listed(self, folder: str, found: Mapping[str, Fingerprint]) -> str:
        """Keeps the fingerprints of a table's files. Returns the hash of the list."""
        return self._put(self._folder / LISTS / f"{folder}.json", written(found))

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Keeps the pipeline's own files as they are. Yields the name and the hash of each."""
        for name, text in texts_of(self.settings, self.pipeline).items():
            yield name, self._put(self._folder / TEXTS / name, text.encode())

    def _put(self, place: LakeUri, content: bytes) -> str:
        """Writes a file once: what another try has written stays, since its manifest may name it already. Returns the
        hash of what is there."""
        files = files_at(place)
        files.make_folder(place.parent)
        return hashlib.sha256(content if files.publish(place, content) else _content(place)).hexdigest()

    @property
    def _shelf(self) -> LakeUri:
        return Tables.of(self.settings, self.shelf or self.pipeline).savepoints

    def _called(self, participant: Participant) -> str:
        return self.called.get(participant.name, participant.name)

    @property
    def _folder(self) -> LakeUri:
        return self._shelf / self.name

    def _taken(self, begun: Begun | None) -> TerminalError:
        by = f"one of {begun.created_at}, by {begun.created_by}" if begun is not None else "one"
        return TerminalError(
            what="there is a savepoint of this name",
            where=f"{self.pipeline.name}, {self._folder}",
            expected="a new name",
            found=by,
            action=f"choose another name; or drop that one: `lakemark savepoint drop {self.pipeline.name} {self.name}`",
        )

    def _overtaken(self, participant: Participant, gone: str) -> TerminalError:
        again = f"`lakemark savepoint drop {self.pipeline.name} {self.name}`"
        return TerminalError(
            what="a file was removed while it was saved",
            where=f"{self.pipeline.name}, {participant.name}",
            expected="a file of the checkpoint; somebody runs VACUUM with a short retention",
            found=f"no {gone}",
            action=f"drop what was begun ({again}), and take the savepoint of a newer checkpoint",
        )


def _content(file: LakeUri) -> bytes:
    with files_at(file).open(file) as found:
        return found.read()
