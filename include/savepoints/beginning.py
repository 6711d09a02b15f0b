"""Finds the pipeline that begins with a savepoint, or makes its file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from include.lake.stores import files_at
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.loading import load_pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.savepoints import TEXTS
from include.savepoints.renaming import renamed
from include.savepoints.shelf import taken
from include.settings import Settings


def new_pipeline(
    settings: Settings, source: Pipeline, savepoint: str, name: str, is_kept: bool, say: Callable[[str], None]
) -> Pipeline:
    """The pipeline of that name. If it has no file, one is made of the file that the savepoint has kept.

    Args:
        source: the savepoint's pipeline. is_kept: whether the new file stays. say: is told what was made.

    Raises:
        TerminalError: see `taken` and `renamed`; the pipeline has halves; the folder of pipeline files cannot be
            written. PipelineFileError: the file is not valid.
    """
    taken(settings, source, savepoint)
    path = settings.pipelines / f"{name}.yaml"
    if path.exists():
        return _alone(find_pipeline(name, settings.pipelines, settings.environment))
    _alone(source)
    kept = Tables.of(settings, source).savepoints / savepoint / TEXTS / f"{source.name}.yaml"
    with files_at(kept).open(kept) as content:
        text = renamed(content.read().decode(), source.name, name)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, path.name)
        scratch.write_text(text)
        found = load_pipeline(scratch, settings.environment)
    if not is_kept:
        return found
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        pass
    except OSError as error:
        raise TerminalError(
            what="the new pipeline's file cannot be written",
            where=str(path),
            expected="a folder of pipeline files that may be written",
            found=error.strerror or str(error),
            action=f"write {path.name} where your pipeline files come from, with a name and tables of its own, and run "
            "the same again",
        ) from error
    say(f"made {path}: the savepoint's file, with other names")
    return find_pipeline(name, settings.pipelines, settings.environment)


def _alone(pipeline: Pipeline) -> Pipeline:
    if pipeline.merge_every is not None or pipeline.is_landing:
        raise TerminalError(
            what="a pipeline of two halves cannot begin with a savepoint",
            where=pipeline.name,
            expected="a pipeline without merge_every",
            found="one with it: its rows come from an archive that another half writes",
            action="restore the savepoint in its own pipeline; or clone without merge_every (write the new file so)",
        )
    return pipeline
