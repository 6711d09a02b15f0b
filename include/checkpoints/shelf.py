"""The shelf of a pipeline's savepoints: finds, lists and drops them. Needs no Spark."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass

from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.fault_points import fault_point
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.savepoints import BEGUN, FORM, LISTS, MANIFEST, Begun, Savepoint, folder_of, verify_name
from include.settings import Settings


@dataclass(frozen=True)
class OnShelf:
    """What lies under one name."""

    name: str
    folder: LakeUri
    begun: Begun | None  # None: nobody can read what was decided
    savepoint: Savepoint | None  # None: it was begun and not ended, or its manifest is damaged
    damage: str | None = None

    def brought_from(self, pipeline: Pipeline) -> str | None:
        """The pipeline whose rows these are, brought to be promoted over this one; None: it is a savepoint of it."""
        return None if self.begun is None or self.begun.pipeline == pipeline.name else self.begun.pipeline


def on_shelf(settings: Settings, pipeline: Pipeline) -> list[OnShelf]:
    """All savepoints of a pipeline, oldest first; also those that were begun and not ended. Raises OSError: the store
    does not answer."""
    shelf = Tables.of(settings, pipeline).savepoints
    found = [looked_at(shelf, name) for name in files_at(shelf).folders(shelf)]
    return sorted(found, key=lambda one: (one.begun.created_at if one.begun is not None else "", one.name))


def looked_at(shelf: LakeUri, name: str) -> OnShelf:
    """What lies under a name; also if nothing does."""
    folder = shelf / name
    begun, savepoint, damage = None, None, None
    try:
        if (data := _read(folder / BEGUN)) is not None:
            begun = Begun.from_json(data)
        if (data := _read(folder / MANIFEST)) is not None:
            savepoint = Savepoint.from_json(data)
            begun = savepoint.begun
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        damage = f"{type(error).__name__}: {error}"[:200]
    return OnShelf(name, folder, begun=begun, savepoint=savepoint, damage=damage)


def taken(settings: Settings, pipeline: Pipeline, name: str) -> Savepoint:
    """The savepoint of a name.

    Raises:
        TerminalError: there is none, it was not ended, it is what a promotion has brought, or its manifest is damaged.
    """
    verify_name(pipeline.name, name)
    shelf = Tables.of(settings, pipeline).savepoints
    found = looked_at(shelf, name)
    drop = f"`lakemark savepoint drop {pipeline.name} {name}`"
    if found.damage is not None:
        raise TerminalError(
            what="this savepoint says nothing that can be relied on",
            where=f"{pipeline.name}, {found.folder}",
            expected=f"{MANIFEST} as it was written",
            found=found.damage,
            action=f"bring the file back from a copy; or give the savepoint up: {drop}",
        )
    if found.begun is not None and (new := found.brought_from(pipeline)) is not None:
        raise TerminalError(
            what="this is no savepoint: it holds another pipeline's rows, for a promotion that did not end",
            where=f"{pipeline.name}, {found.folder}",
            expected=f"a savepoint of {pipeline.name}",
            found=f"rows of {new}, brought by {found.begun.created_by} at {found.begun.created_at}",
            action=f"run the promotion again: `lakemark promote {new} --over {pipeline.name} --reason ...`; or give it "
            f"up: {drop}",
        )
    if found.savepoint is None and found.begun is not None:
        copy = " --copy" if found.begun.is_copy else ""
        copy += " --deep" if found.begun.is_deep else ""
        end = f"`lakemark savepoint create {pipeline.name} --name {name}{copy}`"
        raise TerminalError(
            what="this savepoint was begun and not ended",
            where=f"{pipeline.name}, {found.folder}",
            expected=f"its {MANIFEST}",
            found=f"none; {found.begun.created_by} began it at {found.begun.created_at}",
            action=f"end it: {end}; or give it up: {drop}",
        )
    if found.savepoint is None:
        names = files_at(shelf).folders(shelf)
        raise TerminalError(
            what="there is no such savepoint",
            where=f"{pipeline.name}, {shelf}",
            expected=f"one of: {', '.join(difflib.get_close_matches(name, names) or names) or 'none yet'}",
            found=name,
            action=f"see `lakemark savepoint list {pipeline.name}`",
        )
    return found.savepoint


def pins_of(settings: Settings, pipeline: Pipeline) -> list[OnShelf]:
    """The savepoints that need files of the pipeline's tables: all but copies that are whole. Of each it is known what
    was decided.

    Raises:
        TerminalError: nobody can read what one of them needs.
    """
    found = []
    for one in on_shelf(settings, pipeline):
        if one.begun is None:
            raise _unknown(pipeline, one, BEGUN, one.damage or "none")
        if one.brought_from(pipeline) is None and (one.savepoint is None or not one.begun.is_copy):
            found.append(one)
    return found


def files_of(pipeline: Pipeline, pin: OnShelf, participant: str) -> dict[str, int] | None:
    """The files that a pin needs of a table that it has, relative to the table, with their sizes in bytes; None: it was
    not ended, and does not say it yet.

    Raises:
        TerminalError: nobody can read it.
    """
    name = f"{LISTS}/{folder_of(participant)}.json"
    try:
        listed = _read(pin.folder / name)
        if listed is not None:
            return {file: int(told["size"]) for file, told in listed.items()}
    except (ValueError, TypeError, KeyError) as error:
        raise _unknown(pipeline, pin, name, f"{type(error).__name__}: {error}"[:200]) from error
    if pin.savepoint is not None:
        raise _unknown(pipeline, pin, name, "none")
    return None


def drop(settings: Settings, pipeline: Pipeline, name: str) -> OnShelf:
    """Removes a savepoint, also one that was not ended, and returns what it was. Whoever calls it again after it was
    killed ends it.

    Raises:
        TerminalError: there is none, or what goes back to it was interrupted. OSError: the store refuses.
    """
    verify_name(pipeline.name, name)
    found = looked_at(Tables.of(settings, pipeline).savepoints, name)
    _verify_not_needed(settings, pipeline, name)
    if found.begun is None and found.damage is None and not files_at(found.folder).exists(found.folder):
        taken(settings, pipeline, name)  # says that there is none
    files_at(found.folder).remove(found.folder / MANIFEST)  # first: from here on it is none
    fault_point("savepoint.manifest_removed")
    files_at(found.folder).delete(found.folder)
    return found


def _verify_not_needed(settings: Settings, pipeline: Pipeline, name: str) -> None:
    """Checks that no change of generation is under way that brings the savepoint's rows."""
    begun = GenerationChange(Coordinator(settings, pipeline)).under_way
    if begun is None or begun.savepoint != name:
        return
    again = f"`lakemark savepoint restore {pipeline.name} {name} --reason ...`"
    if begun.is_cut_over:
        again = f"`lakemark promote {begun.cut_over_to} --over {pipeline.name} --reason ...`"
    raise TerminalError(
        what="tables are on their way to this savepoint's rows: who brought them was interrupted, or is still at it",
        where=f"{pipeline.name}, {name}",
        expected=f"that generation {begun.generation} has begun in the ledger",
        found=f"its fence in the target, by {begun.started_by}, and nothing in the ledger",
        action=f"run that again, it ends what has begun: {again}; then drop it",
    )


def _unknown(pipeline: Pipeline, one: OnShelf, file: str, found: str) -> TerminalError:
    return TerminalError(
        what="nobody can read which files this savepoint needs, so none may be removed",
        where=f"{pipeline.name}, {one.folder}",
        expected=f"{file} as it was written",
        found=found,
        action="bring the file back from a copy; or give the savepoint up: `lakemark savepoint drop "
        f"{pipeline.name} {one.name}`",
    )


def _read(file: LakeUri) -> JsonObject | None:
    """The JSON of a file; None if there is none. Raises ValueError: it is none that this Lakemark can read."""
    try:
        with files_at(file).open(file) as content:
            data = json.loads(content.read())
    except FileNotFoundError:
        return None
    if not isinstance(data, dict):
        raise ValueError(f"{file.name} holds no object")
    if data.get("form", 0) > FORM:
        raise ValueError(f"{file.name} is of form {data['form']}: a newer Lakemark has made it")
    return data
