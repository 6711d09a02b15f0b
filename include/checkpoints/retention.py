"""What maintenance must leave in place: files and logs of retained checkpoints and of savepoints, and what that
costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from include.checkpoints.listing import position_at, told_in
from include.checkpoints.shelf import files_of, pins_of
from include.lake.log_cleaning import log_retention
from include.lake.log_store import LOG
from include.lake.merge.frozen import freeze
from include.lake.merge.past import past_of
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint, checkpoints_of, retained, standing_at
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonObject
from include.settings import Settings


@dataclass(frozen=True)
class Kept:
    """What retained checkpoints and pinned savepoints need of a table."""

    versions: int  # how many
    names: Mapping[str, int]  # all files of these versions, relative to the table, with their sizes in bytes
    older: Mapping[str, int]  # those of them that the newest version does not need

    def to_json(self) -> JsonObject:
        return {"versions": self.versions, "files": len(self.older), "bytes": sum(self.older.values())}


def retained_in(settings: Settings, pipeline: Pipeline) -> Sequence[Checkpoint]:
    """The checkpoints that the pipeline file keeps, oldest first."""
    rule = pipeline.checkpoints
    if rule.retain is None and rule.retain_hours is None:
        return ()
    told = told_in(settings, pipeline)
    known = checkpoints_of(pipeline.name, (event for _, event in told))
    if rule.retain_hours is None:
        return retained(known, rule.retain, None)
    since = (datetime.now(UTC) - timedelta(hours=rule.retain_hours)).isoformat()
    return retained(known, None, since, stood=standing_at(pipeline.name, told, since))


def kept_of(settings: Settings, pipeline: Pipeline, participant: Participant) -> Kept | None:
    """What retained checkpoints and pinned savepoints need of a table, as it is now; None: nothing. A checkpoint that
    is broken needs nothing.

    Raises:
        TableDamaged: its newest version cannot be read. TerminalError: nobody can read what a savepoint needs.
    """
    pins, places = pins_of(settings, pipeline), Tables.of(settings, pipeline)
    if (log := TableLog.open(participant.uri(settings))) is None:
        return None
    versions = _versions(participant, retained_in(settings, pipeline), log)
    begun = ((pin, pin.begun) for pin in pins if pin.begun is not None)
    pinned = [(pin, version) for pin, said in begun for version in _versions(participant, [said.checkpoint], log)]
    if not versions and not pinned:
        return None
    looks = past_of(log.uri, [*versions, log.version], partial(places.frozen, log.table_id))
    names = [looks[version].names for version in versions if looks[version].lost is None]
    for pin, version in pinned:
        listed = files_of(pipeline, pin, participant.name)
        own = partial(_only, places.saved(pin.name, participant.name))
        names.append(past_of(log.uri, [version], own)[version].names if listed is None else listed)
    kept = {name: size for of_one in names for name, size in of_one.items()}
    older = {name: size for name, size in kept.items() if name not in looks[log.version].names}
    return Kept(len({*versions, *(version for _, version in pinned)}), kept, older)


def kept_in(settings: Settings, pipeline: Pipeline) -> dict[str, Kept]:
    """The same of all tables, by the participant's name. Raises as `kept_of`."""
    found = ((one.name, kept_of(settings, pipeline, one)) for one in Catalog.of(pipeline).participants)
    return {name: kept for name, kept in found if kept is not None}


def freeze_due(settings: Settings, pipeline: Pipeline) -> int:
    """Freezes versions of retained checkpoints before log clean-up removes what they are read from, and removes frozen
    ones that no retained checkpoint needs any more. Returns how many it has frozen.

    Raises:
        TableDamaged: see `kept_in`. OSError: the store does not answer.
    """
    checkpoints, places = retained_in(settings, pipeline), Tables.of(settings, pipeline)
    wanted: dict[LakeUri, tuple[LakeUri, int]] = {}
    count = 0
    for participant in Catalog.of(pipeline).participants:
        if (log := TableLog.open(participant.uri(settings))) is None:
            continue
        before = (datetime.now(UTC) - log_retention(log.configuration) / 2).isoformat()
        old = [c for c in checkpoints if c.committed_at is None or c.committed_at < before]  # None: nobody knows
        wanted |= {places.frozen(log.table_id, v): (log.uri, v) for v in _versions(participant, old, log)}
    there = {file.name.partition(f"/{LOG}/")[0] for file in files_at(places.checkpoints).list(places.checkpoints)}
    for place, (uri, version) in wanted.items():
        with suppress(UnfitError, TableDamaged):  # it is broken, and listed so
            if str(place).removeprefix(f"{places.checkpoints}/") not in there and (past := Snapshot.at(uri, version)):
                freeze(past, place)
                count += 1
    for name in there:
        if places.checkpoints / name not in wanted:
            files_at(places.checkpoints).delete(places.checkpoints / name)
    return count


def _only(place: LakeUri, _: int) -> LakeUri:
    return place


def _versions(participant: Participant, checkpoints: Sequence[Checkpoint], log: TableLog | None) -> list[int]:
    """The versions of a table that checkpoints need, if it is still the same one."""
    if log is None:
        return []
    stood = [position_at(checkpoint, participant) for checkpoint in checkpoints]
    same = (p for p in stood if p.identity in (None, log.table_id))
    return sorted({p.version for p in same if p.version is not None})
