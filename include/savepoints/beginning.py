"""Makes the files of pipelines that begin with a savepoint, or that go on as another one does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from include.checkpoints.shelf import taken
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.pipeline_file import LANDING, Pipeline, find_pipeline
from include.pipeline_file.in_words import IN_WORDS
from include.pipeline_file.section import NAME
from include.pipeline_file.tables import Tables
from include.pipeline_file.users_file import read_users_file
from include.protocol.errors import PipelineFileError, TerminalError
from include.protocol.savepoints import TEXTS
from include.savepoints.renaming import exchanged, renamed, tables_of, with_section
from include.savepoints.same_program import counterparts
from include.scratch import scratch_folder
from include.settings import Settings

_INSTEAD = "restore the savepoint in its own pipeline; or clone without merge_every (write the new file so)"


class Beginning(NamedTuple):
    """A pipeline that is to begin."""

    pipeline: Pipeline
    text: str | None  # of its file, which is not there yet; None: it is


def new_pipeline(
    settings: Settings, source: Pipeline, savepoint: str, name: str, lake: LakeUri | None = None
) -> Beginning:
    """The pipeline of that name, as its file says; without one, as the file says that the savepoint has kept.

    The file is written at the end: a pipeline that has one can be run, and would begin without rows.

    Args:
        source: the savepoint's pipeline. lake: of the savepoint; None: this one.

    Raises:
        TerminalError: see `taken` and `renamed`; the pipeline has halves. PipelineFileError: the file is not valid.
    """
    there = settings if lake is None else replace(settings, lake=lake)
    taken(there, source, savepoint)
    if not re.fullmatch(NAME, name) or "__" in name:
        raise TerminalError(
            what="no pipeline can have this name",
            where="--as",
            expected=f"{IN_WORDS[NAME]}, without two underscores in a row",
            found=name[:100],
            action="choose another name; nothing was changed",
        )
    path = settings.pipelines / f"{name}.yaml"
    if path.exists():
        return Beginning(verify_alone(find_pipeline(name, settings.pipelines, settings.environment), _INSTEAD), None)
    verify_alone(source, _INSTEAD)
    kept = Tables.of(there, source).savepoints / savepoint / TEXTS / f"{source.name}.yaml"
    with files_at(kept).open(kept) as content:
        text = renamed(content.read().decode(), source.name, name)
    return Beginning(declared_by(settings, name, text), text)


def file_of_the_other(settings: Settings, new: Pipeline, over: Pipeline) -> tuple[str, Pipeline]:
    """A pipeline's file as another one's says it, but for its name, its tables and its sinks; and the pipeline that it
    declares.

    Args:
        new: the one that says it. over: the one that keeps its name, its tables and its sinks.

    Raises:
        TerminalError: see `exchanged`. PipelineFileError: the file is not valid.
    """
    called = {theirs.path: mine.path for mine, theirs in counterparts(over, new)}
    tables = {path: called.get(path) or path.replace(new.name, over.name) for path in tables_of(new)}
    path = settings.pipelines / f"{new.name}.yaml"
    lake = {f"lake://{old}": f"lake://{table}" for old, table in tables.items()}
    mine = read_users_file(settings.pipelines / f"{over.name}.yaml", path.parent)
    theirs = with_section(read_users_file(path, path.parent), "sinks", of=mine, where=f"the file of {new.name}")
    text = exchanged(theirs, new.name, over.name, lake)
    return text, declared_by(settings, over.name, text)


def add_file(settings: Settings, name: str, text: str) -> Path:
    """Makes a pipeline's file, whole or not at all; one that somebody has written meanwhile stays. Returns its path.

    Raises:
        TerminalError: the folder of pipeline files cannot be written.
    """

    def linked(scratch: Path, path: Path) -> None:
        with suppress(FileExistsError):
            os.link(scratch, path)
        scratch.unlink()

    return _written(settings, name, text, linked)


def write_file(settings: Settings, name: str, text: str) -> Path:
    """Makes or replaces a pipeline's file. Returns, Raises: see `add_file`."""
    return _written(settings, name, text, os.replace)


def _written(settings: Settings, name: str, text: str, put: Callable[[Path, Path], None]) -> Path:
    """Args: put: brings the whole file, the first path, to its place, the second one."""
    path = settings.pipelines / f"{name}.yaml"
    scratch = path.with_name(f".{name}.new")
    try:
        scratch.write_text(text)
        put(scratch, path)
    except OSError as error:
        raise _not_written(path, error) from error
    return path


def declared_by(settings: Settings, name: str, text: str) -> Pipeline:
    """The pipeline, or the half of one, that a file of this text would declare. Raises TerminalError: none."""
    with scratch_folder() as folder:
        scratch = Path(folder, f"{name.removesuffix(LANDING)}.yaml")
        scratch.write_text(text)
        try:
            return find_pipeline(name, scratch.parent, settings.environment)
        except PipelineFileError as error:
            raise TerminalError(
                what="the file that would be written is not valid",
                where=f"{settings.pipelines / scratch.name}",
                expected="a valid pipeline file",
                found="; ".join(map(str, error.problems)) or error.found,
                action=f"write {scratch.name} yourself, check it with `lakemark validate {name}`, and run the same "
                "again; nothing was changed",
            ) from None  # its place is a scratch file


def _not_written(path: Path, error: OSError) -> TerminalError:
    return TerminalError(
        what="a pipeline's file cannot be written",
        where=str(path),
        expected="a folder of pipeline files that may be written",
        found=error.strerror or str(error),
        action=f"write {path.name} where your pipeline files come from, with a name and tables of its own, and run "
        "the same again",
    )


def verify_alone(pipeline: Pipeline, action: str) -> Pipeline:
    """Raises TerminalError: the pipeline has halves. Args: action: what a person can do instead."""
    if pipeline.merge_every is not None or pipeline.is_landing:
        raise TerminalError(
            what="a pipeline of two halves cannot begin with a savepoint, nor rehearse that",
            where=pipeline.name,
            expected="a pipeline without merge_every",
            found="one with it: its rows come from an archive that another half writes",
            action=action,
        )
    return pipeline
