"""Lists a pipeline's checkpoints: what each holds, whether it is whole, and how long it stays so. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from include.lake.ledger import Ledger
from include.lake.merge.past import Past, past_of
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.participant import POINT, Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint, checkpoints_of
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import Event
from include.protocol.ledger_rows import from_row
from include.protocol.participants import NOWHERE, Position
from include.settings import Settings

_NEVER_THERE = Past(-1, {})  # of a table that no batch had written yet


@dataclass(frozen=True)
class TableThen:
    """One table at a checkpoint."""

    name: str  # the participant's
    position: Position
    past: Past  # the version there, as it is now

    def to_json(self) -> JsonObject:
        position = {name: value for name, value in self.position.to_json().items() if name != "digest"}
        return {**position, "files": len(self.past.names), "bytes": self.past.bytes, "lost": self.past.lost}


@dataclass(frozen=True)
class Listed:
    """A checkpoint as it is now."""

    checkpoint: Checkpoint
    tables: Sequence[TableThen]
    until: str | None  # ISO 8601, UTC: it stays whole at least so long; None: until its files are replaced

    @property
    def lost(self) -> str | None:
        """Why nobody can go back to it; None: it is whole."""
        if self.checkpoint.positions is None or self.checkpoint.point.version is None:
            return "its commit does not say where every table stood"
        return next((f"{table.name}: {table.past.lost}" for table in self.tables if table.past.lost is not None), None)

    def to_json(self) -> JsonObject:
        return {
            **self.checkpoint.to_json(),
            "name": self.checkpoint.name,
            "tables": {table.name: table.to_json() for table in self.tables},
            "lost": self.lost,
            "until": self.until,
        }


def told_in(settings: Settings, pipeline: Pipeline) -> list[tuple[str, Event]]:
    """All events of the pipeline's ledger, each with when it was recorded (ISO 8601, UTC)."""
    rows = Ledger(Tables.of(settings, pipeline).ledger).rows()
    return [(row["recorded_at"].isoformat(), from_row(row)) for row in rows]


def checkpoints_in(settings: Settings, pipeline: Pipeline) -> list[Checkpoint]:
    """All checkpoints that the pipeline's ledger knows, oldest first."""
    return checkpoints_of(pipeline.name, Ledger(Tables.of(settings, pipeline).ledger).events())


def listed(settings: Settings, pipeline: Pipeline, checkpoints: Sequence[Checkpoint]) -> list[Listed]:
    """Looks at checkpoints. Every table's log and folder are read once, and no data file is.

    Args:
        checkpoints: oldest first.

    Raises:
        TableDamaged: the newest version of a table cannot be read. OSError: the store does not answer.
    """
    participants = Catalog.of(pipeline).participants
    tables = [_thens(settings, pipeline, participant, checkpoints) for participant in participants]
    hours = timedelta(hours=pipeline.maintenance.vacuum_after_hours)
    found = []
    for place, checkpoint in enumerate(checkpoints):
        ends = [checkpoints[end].committed_at for of in tables if (end := of.held_until[place]) is not None]
        first = min((end for end in ends if end is not None), default=None)
        until = None if first is None else (datetime.fromisoformat(first) + hours).isoformat()
        found.append(Listed(checkpoint, [of.thens[place] for of in tables], until))
    return found


@dataclass(frozen=True)
class _OfTable:
    """One table at every checkpoint."""

    thens: Sequence[TableThen]
    # For each: the newest checkpoint that still has all of its files. VACUUM counts its hours from then on, or from
    # later on. None: the table still has them.
    held_until: Sequence[int | None]


def _thens(
    settings: Settings, pipeline: Pipeline, participant: Participant, checkpoints: Sequence[Checkpoint]
) -> _OfTable:
    uri = participant.uri(settings)
    positions = [position_at(checkpoint, participant) for checkpoint in checkpoints]
    log = TableLog.open(uri)
    id_, head = (None, -1) if log is None else (log.table_id, log.version)
    versions = [p.version for p in positions if p.version is not None and p.identity in (None, id_)]
    frozen = partial(Tables.of(settings, pipeline).frozen, id_)
    looks = past_of(uri, [*versions, head] if versions else [], frozen)
    pasts = [_past(p, id_, looks.get(-1 if p.version is None else p.version)) for p in positions]
    return _OfTable(
        [TableThen(participant.name, p, past) for p, past in zip(positions, pasts, strict=True)],
        _held_until(pasts, looks.get(head, _NEVER_THERE)),
    )


def _held_until(pasts: Sequence[Past], now: Past) -> list[int | None]:
    """See `_OfTable`. Args: now: the newest version."""
    last = {name: place for place, past in enumerate(pasts) for name in past.names}
    gone = [[last[name] for name in past.names if name not in now.names] for past in pasts]
    return [min(places, default=None) for places in gone]


def _past(position: Position, table_id: str | None, found: Past | None) -> Past:
    if position.version is None:
        return _NEVER_THERE
    if found is None:
        other = "no table" if table_id is None else f"table id {table_id}"
        return Past(position.version, {}, f"the table is another one now: {other}, and not {position.identity}")
    return found


def position_at(checkpoint: Checkpoint, participant: Participant) -> Position:
    """Where a table stood; version None: it was not there."""
    return checkpoint.all_positions(POINT).get(participant.name, NOWHERE)
