"""Rehearses a restore: a savepoint is checked, becomes a pipeline for a while, which is audited and dropped."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from include.audit.auditor import audit
from include.checkpoints.reading import Cut, shown_as
from include.fault_points import fault_point
from include.lake.delta_tables import query
from include.lake.stores import files_at
from include.participants.catalog import places_of
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError
from include.protocol.savepoints import Savepoint
from include.savepoints.beginning import verify_alone
from include.savepoints.checking import checked
from include.savepoints.cloning import Cloning
from include.savepoints.rehearsals import Rehearsal, record
from include.savepoints.same_program import counterparts
from include.settings import Settings

REHEARSAL = "__rehearsal_"  # then an id: the pipeline that lives for a while; no file's name contains `__`
_SHELF = "_lakemark/rehearsal"
_LONGEST = timedelta(days=1)  # what is older was left by one that was killed


def rehearse(settings: Settings, pipeline: Pipeline, name: str, say: Callable[[str], None]) -> Rehearsal:
    """Rehearses the restore of a savepoint, and records in it how that went.

    Raises:
        TerminalError: there is no such savepoint. OSError: the store refuses.
    """
    verify_alone(pipeline, "restore the savepoint in its own pipeline, or in a lake of its own")
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    found = checked(settings, pipeline, name, is_deep=True, say=say)
    problems = list(found.problems)
    if not problems:
        problems = _tried(settings, pipeline, found.savepoint, say)
    done = Rehearsal(name, at, time.monotonic() - began, problems=problems, code_version=settings.code_version)
    record(settings, pipeline, done)
    return done


def _tried(settings: Settings, pipeline: Pipeline, savepoint: Savepoint, say: Callable[[str], None]) -> list[str]:
    """Makes a pipeline of the savepoint, audits it, and removes it. Returns what was wrong."""
    for id_ in _left(settings, pipeline):
        _removed(settings, pipeline, id_)
    own = f"{_id(datetime.now(UTC))}-{secrets.token_hex(3)}"  # two may rehearse at once
    new = _for_a_while(pipeline, own)
    try:
        Cloning(
            settings, pipeline, savepoint.begun.name, new, reason="a rehearsal", started_by="a rehearsal", say=say
        ).begin()
        fault_point("rehearsal.cloned")
        return [*_miscounted(settings, pipeline, new, savepoint), *map(str, audit(settings, new, deep=True).findings)]
    except LakemarkError as error:
        return [str(error)]
    finally:
        _removed(settings, pipeline, own)


def _id(at: datetime) -> str:
    """The id of a rehearsal that began then: ids sort by time."""
    return f"{at:%Y%m%dT%H%M%S}"


def _left(settings: Settings, pipeline: Pipeline) -> list[str]:
    """The ids of rehearsals that were killed."""
    shelf = settings.lake / _SHELF / pipeline.name
    return [id_ for id_ in files_at(shelf).folders(shelf) if id_ < _id(datetime.now(UTC) - _LONGEST)]


def _for_a_while(pipeline: Pipeline, id_: str) -> Pipeline:
    """A pipeline that does the same, under another name, with tables that no file can name."""
    name = f"{pipeline.name}{REHEARSAL}{id_}"
    own = f"lake://{_SHELF}/{pipeline.name}/{id_}"
    target = pipeline.target
    routes = [one.model_copy(update={"table": f"{own}/route_{n}"}) for n, one in enumerate(target.routes)]
    tables = {"table": f"{own}/target", "history_table": target.history_table and f"{own}/history", "routes": routes}
    moved = {"name": name, "target": target.model_copy(update=tables)}
    return pipeline.model_copy(update={**moved, "archive": pipeline.archive and f"{own}/archive"})


def _removed(settings: Settings, pipeline: Pipeline, id_: str) -> None:
    """Removes all of a rehearsal; last the folder that tells of it, so that one that is killed here is found again."""
    own = settings.lake / _SHELF / pipeline.name / id_
    written = places_of(settings, _for_a_while(pipeline, id_))
    for place in (*(place for place in written if not f"{place}".startswith(f"{own}/")), own):
        with suppress(FileNotFoundError):
            files_at(place).delete(place)


def _miscounted(settings: Settings, pipeline: Pipeline, new: Pipeline, savepoint: Savepoint) -> list[str]:
    """The tables of the new pipeline that have another number of rows than the savepoint says."""
    tables, problems = Cut.at(settings, new, None).tables(), []
    for mine, theirs in counterparts(pipeline, new):
        wanted = savepoint.tables[mine.name].rows if mine.name in savepoint.tables else None
        if wanted is not None and (table := tables.get(shown_as(theirs))) is not None:
            [row] = query(table, "SELECT count(*) AS n FROM t")
            if row["n"] != wanted:
                problems.append(f"{mine.name}: {row['n']:,} rows, and {wanted:,} were saved")
    return problems
