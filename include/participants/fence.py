"""Fences the tables of a pipeline: ended generations get a marker that no batch can exceed (I5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from include.fault_points import fault_point
from include.lake.delta_tables import OpenedTable, commit_markers
from include.lake.log_entry import fence_before
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.bringing_back import BringBack
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import FENCE, FORM, BatchKey, app_id, ended_id
from include.protocol.errors import TerminalError
from include.protocol.generations import fence_metadata
from include.protocol.ledger_events import FIRST_GENERATION, PROMOTION, GenerationStarted
from include.protocol.participants import NEVER, NOWHERE, Position, Stamp, Where
from include.settings import Settings

Commit = Callable[[OpenedTable, Mapping[str, int], str], bool]
Pasts = Mapping[str, BringBack]  # by the participant's name


def stands_after(settings: Settings, pipeline: Pipeline, started: GenerationStarted) -> GenerationStarted:
    """The start of a generation, as the ledger records it: after a cut over, its tables stand where its fences have
    brought the rows; after a promotion, where the chunks have left them that made the new table. If a log no longer
    says where a fence was, nothing is said of any table."""
    if started.is_promotion and started.positions is not None:
        number = int(started.origin.removeprefix(PROMOTION))
        positions = dict(started.positions)
        for one in Catalog.of(pipeline).before:
            stood, table = positions.get(one.name, NOWHERE), one.uri(settings)
            positions[one.name] = with_chunks_of(stood, table, pipeline.name, lambda key: -key.generation == number)
        return replace(started, positions=positions)
    if not started.is_cut_over:
        return started
    found = {}
    for participant in Catalog.of(pipeline).before:
        position = (started.positions or {}).get(participant.name, NOWHERE)
        if position.version is not None:
            log = TableLog.open(participant.uri(settings))
            entries = [] if log is None else log.newest_entries(pipeline.name, None)
            version = fence_before(entries, started.generation)
            if version is None:
                return replace(started, positions=None)
            position = replace(position, version=version)
        found[participant.name] = position
    return replace(started, positions=found)


def with_chunks_of(stood: Position, table: LakeUri, pipeline: str, are_its: Callable[[BatchKey], bool]) -> Position:
    """Where a table before the point stands with what chunks have left there since it stood at a position.

    Args:
        are_its: whether a batch is one of the chunks.
    """
    log = TableLog.open(table)
    if log is None or stood.identity not in (None, log.table_id):
        return stood
    for commit in log.landed_commits(pipeline):
        if commit.table_version <= (-1 if stood.version is None else stood.version):
            return stood
        if are_its(commit.metadata.batch.key):
            return replace(stood, version=commit.table_version, identity=log.table_id)
    return stood


@dataclass(frozen=True)
class Fence:
    """The end of all generations before one.

    Args:
        commit_to_target: commits markers and metadata to the target, as the next version after the one that was opened;
            returns False if another writer was faster. A promotion adds the new table's rows in that same commit. A
            restore brings the rows of every table by its fence.
    """

    settings: Settings
    pipeline: Pipeline
    started: GenerationStarted  # the one that begins; its decision is the metadata of every fence
    commit_to_target: Commit = commit_markers

    def raise_in_all(self, target: TableLog, form: int, is_decided: bool = False) -> bool:
        """Fences all tables; False if a batch of the ended generation landed in the target after it was opened.

        Args:
            form: of the batches of the generation that ends. is_decided: the target has its fence: the change is only
                to be ended.

        Raises:
            TerminalError: a table cannot be brought back to where a restore goes. Nothing is fenced then.
        """
        pasts = self._pasts_left() if is_decided else self.pasts(target)
        point = Catalog.of(self.pipeline).point
        if not self._raised(target, pasts.get(point.name, self.commit_to_target)):
            return False
        # An ended generation may not add anything to other tables either. What its attempts have left there, and no
        # batch has landed, the next generation's first batch takes away.
        self.raise_before(form, pasts)
        return True

    def raise_before(self, form: int, pasts: Pasts = MappingProxyType({})) -> None:
        """Fences the tables before the point. Args: pasts: the tables that this brings back, and to what."""
        for participant in Catalog.of(self.pipeline).before:
            self._raise(participant.uri(self.settings), form, pasts.get(participant.name), participant.name)

    def raise_in(self, table: LakeUri, is_point: bool) -> None:
        """Fences a table that has no fence although the generation has begun: it was made since, or the pipeline file
        named it not when the fence was raised."""
        self._raise(table, None if is_point else FORM)

    def pasts(self, target: TableLog) -> Pasts:
        """What a restore brings the tables back to; empty if this is none.

        Raises:
            TerminalError: it is no longer there.
        """
        if not self.started.is_restore:
            return {}
        point = Catalog.of(self.pipeline).point
        back_to = target.version if self.started.is_cut_over else self.started.restored_to
        stood = Position(0, 0, 0, version=back_to, identity=self.started.table_id)
        found = {point.name: self._past(point, stood, target)}
        for participant in Catalog.of(self.pipeline).before:
            if (past := self._past_of(participant)) is not None:
                found[participant.name] = past
        return found

    def _pasts_left(self) -> Pasts:
        """The same once the target was brought back. What has gone since then is left as it is, or the change could
        never be ended: that table is not at its position, and the next batch says so."""
        found = {}
        for participant in Catalog.of(self.pipeline).before if self.started.is_restore else ():
            with suppress(TerminalError):
                if (past := self._past_of(participant)) is not None:
                    found[participant.name] = past
        return found

    def _past_of(self, participant: Participant) -> BringBack | None:
        """What a table before the point is brought back to; None: there is no such table."""
        if (log := TableLog.open(participant.uri(self.settings))) is None:
            return None
        position = (self.started.positions or {}).get(participant.name, NOWHERE)
        return self._past(participant, position, log)

    def _past(self, participant: Participant, position: Position, log: TableLog) -> BringBack:
        where, places = Where(self.pipeline.name, participant.name), Tables.of(self.settings, self.pipeline)
        if (name := self.started.savepoint) is None:
            return BringBack.to(log.uri, position, where, frozen=partial(places.frozen, log.table_id))
        saved = places.saved(name, participant.name)
        if self.started.is_cut_over:
            return BringBack.from_copy(log.uri, position, where, saved)
        return BringBack.to(log.uri, position, where, frozen=lambda _: saved, spare=saved)

    def _raise(self, table: LakeUri, form: int | None, past: BringBack | None = None, name: str | None = None) -> None:
        """Tries until no other writer is faster. Args: past: what it brings back. name: the participant's."""
        while (log := TableLog.open(table)) and not self._raised(log, past or commit_markers, form, name):
            pass

    def _raised(self, log: TableLog, commit: Commit, form: int | None = None, named: str | None = None) -> bool:
        """Fences every ended generation that has no fence here: a new table in the old one's place has none.

        Args:
            form: of the ended generation's batches; the fence then also keeps where the table stood. None: the target.
            named: the participant's name, if the commit brings it back: it then keeps where the table stands from here
                on.
        """
        name = self.pipeline.name
        ended = [g for g in range(FIRST_GENERATION, self.started.generation) if log.marker(name, g) != FENCE]
        markers = {app_id(name, generation): FENCE for generation in ended}
        if form is not None:
            for generation in ended:
                if (number := log.marker(name, generation)) is not None:
                    markers[ended_id(name, generation)] = Stamp.of(number, form).number
        if markers and named is not None and isinstance(commit, BringBack):
            markers |= self._stands_from_here_on((self.started.positions or {}).get(named, NOWHERE))
        if not markers:
            return True
        if not commit(log.table, markers, fence_metadata(name, self.started)):
            return False
        fault_point("generation.part_fenced")
        return True

    def _stands_from_here_on(self, position: Position) -> dict[str, int]:
        """What lets a table that was brought back be at a position, whatever later batches had left there."""
        later = range(max(FIRST_GENERATION, position.generation), self.started.generation)
        stamps = {ended_id(self.pipeline.name, generation): Stamp(NEVER).number for generation in later}
        if position.generation >= FIRST_GENERATION:
            stamp = Stamp(position.marker, position.revision)
            stamps[ended_id(self.pipeline.name, position.generation)] = stamp.number
        return stamps
