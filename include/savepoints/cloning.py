"""Begins another pipeline with a savepoint: own tables, own ledger, own markers. Needs no Spark.

The target's first commit decides: it has the rows, the fence of all generations of the savepoint's pipeline, and names
every other table. Then come those, whole by their first commits; then the ledger, as after any change of generation. If
it is killed anywhere and called again, it reaches the same end. The savepoint's pipeline is not touched.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from include.checkpoints.effect import verify_possible
from include.checkpoints.restoring import Restoring
from include.checkpoints.shelf import taken
from include.control.coordinator import Coordinator
from include.control.sink_decisions import pause
from include.fault_points import fault_point
from include.lake.carrying import carry
from include.lake.merge.cloning import clone
from include.lake.merge.frozen import names_of
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import POINT, Participant, is_of_route
from include.participants.verdicts import Verdict, verdict
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import FENCE, app_id
from include.protocol.checkpoints import Checkpoint
from include.protocol.commit_metadata import CLONE_ROLE, FORMAT
from include.protocol.errors import OffsetsExpired, TerminalError, TopicRecreated
from include.protocol.generations import fence_metadata
from include.protocol.ledger_events import CLONE, FIRST_GENERATION, GenerationStarted
from include.protocol.participants import NOWHERE, Position
from include.protocol.savepoints import SavedTable, Savepoint
from include.savepoints.checking import checked
from include.savepoints.same_program import counterparts
from include.savepoints.saved_tables import SavedRows, saved_rows
from include.settings import Settings


@dataclass(frozen=True)
class Cloning:
    """Begins one pipeline with a savepoint of another.

    Args:
        source: the savepoint's pipeline. name: the savepoint's. to: the pipeline that begins. reason, started_by: a
            person's. say: is told how far it is. lake: another lake, which has the savepoint; None: the same one.
    """

    settings: Settings
    source: Pipeline
    name: str
    to: Pipeline
    reason: str
    started_by: str
    say: Callable[[str], None] = lambda _: None
    lake: LakeUri | None = None

    def verdicts(self) -> list[Verdict]:
        """What becomes of every table. Raises TerminalError: see `taken`."""
        saved, known = self._saved(), self._savepoint.tables
        verdicts = [
            verdict(one, _metadata(saved.get(one.name)), is_known=self._old_names.get(one.name) in known)
            for one in self._participants
        ]
        return [*verdicts, *self._left(known)]

    def _left(self, known: Mapping[str, SavedTable]) -> Iterator[Verdict]:
        """What becomes of the saved tables that are none of the new pipeline's."""
        for name in sorted(known.keys() - self._old_names.values()):
            if known[name].folder is None or known[name].rows == 0:
                continue
            rows = "its rows" if (number := known[name].rows) is None else f"its {number:,} rows"
            if is_of_route(name):
                because = f"{rows} would be in no table of {self.to.name}: no route of its file takes the same"
                yield Verdict(name, "impossible", because)
            else:
                yield Verdict(name, "leave", f"{self.to.name} has no such table: {rows} are not taken along")

    def verify(self) -> GenerationStarted:
        """Checks whether it can begin, and returns how. Writes nothing.

        Raises:
            TerminalError: see `taken`; the savepoint is broken; a table cannot be gone on with, or its place is taken;
            the new pipeline has a ledger. TopicRecreated, OffsetsExpired: see `go_back`. OSError: the store refuses.
        """
        found = checked(self._there, self.source, self.name, is_deep=False)
        if found.problems:
            raise self._broken(found.problems)
        verify_possible(self.to.name, self.verdicts())
        return self._decided(found.savepoint.checkpoint)

    def begin(self) -> GenerationStarted:
        """Begins it, and returns how. Raises: see `verify`."""
        decided, saved = self.verify(), self._saved()
        ended = range(FIRST_GENERATION, decided.generation)
        markers = {app_id(self.to.name, generation): FENCE for generation in ended}
        said = fence_metadata(self.to.name, decided)
        self._made(Catalog.of(self.to).point, saved[POINT], str(decided.table_id), markers, said=said)
        checkpoint = self._savepoint.checkpoint
        decided = self._decided(checkpoint)  # whoever was first has
        for participant in Catalog.of(self.to).before:
            position = (decided.positions or {}).get(participant.name, NOWHERE)
            if position.version is not None and participant.name in saved:
                role = {"lakemark": FORMAT, "role": CLONE_ROLE, "pipeline": self.to.name}
                self._made(participant, saved[participant.name], str(position.identity), {}, said=json.dumps(role))
        for name in self.to.sinks:
            pause(
                self.settings, self.to, name, reason=f"a clone of {self.source.name}", by=self.started_by, only_new=True
            )
        begun = Coordinator(self.settings, self.to).ledger.state().generations
        if any(one.origin == decided.origin for one in begun):  # it has begun already, and may have gone on
            return decided
        return self._restoring(self._moved(checkpoint, decided.positions or {}, decided.table_id)).restore()

    def _decided(self, checkpoint: Checkpoint) -> GenerationStarted:
        """How it begins: as the target's first commit says; without a target, as it would say."""
        if (log := TableLog.open(target := Tables.of(self.settings, self.to).target)) is not None:
            begun = log.begun_after(self.to.name, FIRST_GENERATION)
            if begun is None or begun.origin != self._origin(checkpoint):
                raise self._not_new(str(target), f"a table with the id {log.table_id}")
            return begun
        self._verify_free()
        saved, stood = self._saved(), checkpoint.all_positions(POINT)
        ids = {name: str(uuid.uuid4()) for name in saved}
        positions = {
            one.name: replace(stood[saved[one.name].name], version=0, identity=ids[one.name])
            if one.name in saved
            else NOWHERE
            for one in Catalog.of(self.to).before
        }
        to = self._moved(checkpoint, positions, ids[POINT])
        try:
            return replace(self._restoring(to).decide_anew(), target_version=0)
        except (OffsetsExpired, TopicRecreated) as error:  # there is no pipeline yet that its advice is about
            choose = f"nothing was changed: choose a later savepoint (`lakemark savepoint list {self.source.name}`)"
            raise type(error)(
                what=error.what, where=error.where, expected=error.expected, found=error.found, action=choose
            ) from error

    def _made(self, participant: Participant, rows: SavedRows, id_: str, markers: Mapping[str, int], said: str) -> None:
        """Makes a table of the new pipeline, whole, unless it is there."""
        uri = participant.uri(self.settings)
        if (log := TableLog.open(uri)) is None:
            self.say(f"{participant.name}: {len(rows.table.files):,} data files")
            carry(names_of(rows.table), rows.root, uri, self.say)
            clone(rows.table, uri, id_, markers, said=said)
            log = TableLog.open(uri)
        if log is None or (participant.name != POINT and log.table_id != id_):
            raise self._not_new(str(uri), "another table")
        fault_point("clone.table_made")

    @cached_property
    def _savepoint(self) -> Savepoint:
        """What it begins with: a manifest never changes."""
        return taken(self._there, self.source, self.name)

    def _moved(self, checkpoint: Checkpoint, positions: Mapping[str, Position], table_id: str | None) -> Checkpoint:
        """The checkpoint, as one of the new pipeline."""
        point = replace(checkpoint.point, version=0, identity=table_id)
        return replace(checkpoint, pipeline=self.to.name, point=point, positions=positions)

    def _origin(self, checkpoint: Checkpoint) -> str:
        return f"{CLONE}{self.source.name}/{self.name} {checkpoint.name}"

    def _restoring(self, to: Checkpoint) -> Restoring:
        coordinator, first = Coordinator(self.settings, self.to), self._savepoint.begun.first
        return Restoring(coordinator, to, self.reason, self.started_by, origin=self._origin(to), first=first)

    def _saved(self) -> dict[str, SavedRows]:
        """The savepoint's tables, by the participants' names of the new pipeline."""
        found = saved_rows(self._there, self.source, self.name)
        return {new: found[old] for new, old in self._old_names.items() if old in found}

    @property
    def _there(self) -> Settings:
        """The same installation, where the savepoint is."""
        return self.settings if self.lake is None else replace(self.settings, lake=self.lake)

    @property
    def _old_names(self) -> dict[str, str]:
        """What the tables are called in the savepoint, by their names in the new pipeline."""
        return {new.name: old.name for old, new in counterparts(self.source, self.to)}

    @property
    def _participants(self) -> Sequence[Participant]:
        return Catalog.of(self.to).participants

    def _verify_free(self) -> None:
        """Checks that nothing of the new pipeline is there yet."""
        ledger = Coordinator(self.settings, self.to).ledger
        if not ledger.state().is_fresh:
            raise self._not_new(str(Tables.of(self.settings, self.to).ledger), "a ledger")
        for participant in self._participants:
            if TableLog.open(uri := participant.uri(self.settings)) is not None:
                raise self._not_new(str(uri), "a table")

    def _not_new(self, where: str, found: str) -> TerminalError:
        return TerminalError(
            what="a pipeline that begins with a savepoint must be a new one",
            where=f"{self.to.name}, {where}",
            expected="nothing there yet",
            found=found,
            action="choose another name, and other tables; or move what is there away. Nothing was changed",
        )

    def _broken(self, problems: Sequence[str]) -> TerminalError:
        return TerminalError(
            what="this savepoint is broken, so no pipeline can begin with it",
            where=f"{self.source.name}, {self.name}",
            expected="every file as it was written",
            found="; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else ""),
            action=f"choose another one: `lakemark savepoint list {self.source.name}` says which are whole",
        )


def _metadata(saved: SavedRows | None) -> dict | None:
    return None if saved is None else saved.table.metadata
