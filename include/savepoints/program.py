"""Says whether a pipeline's files say the same as when a savepoint was made: who goes back gets the rows, and the next
batch goes on by the files as they are."""

from __future__ import annotations

import hashlib

from include.checkpoints.shelf import taken
from include.lake.stores import files_at
from include.pipeline_file import LANDING, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.savepoints import TEXTS
from include.savepoints.beginning import declared_by
from include.savepoints.same_program import differing_fields
from include.savepoints.texts import texts_of
from include.settings import Settings

# Whether rows of other columns can be gone on with is said of every table (see `verdict`); the others say where records
# are, and how many a batch reads.
_OF_NO_ROW = ("source.schema", "source.bootstrap_servers", "source.security", "source.limits", "description")


def kept_file(settings: Settings, pipeline: Pipeline, savepoint: str) -> tuple[str, Pipeline]:
    """The pipeline file that a savepoint has kept, and the pipeline that it declares.

    Raises:
        TerminalError: see `taken`; the file is none that this Lakemark can read, or not the one that was kept.
    """
    kept = taken(settings, pipeline, savepoint).texts
    file = Tables.of(settings, pipeline).savepoints / savepoint / TEXTS / _file_of(pipeline)
    try:
        with files_at(file).open(file) as content:
            data = content.read()
    except FileNotFoundError:
        data = None
    digest = None if data is None else hashlib.sha256(data).hexdigest()
    if data is None or digest != kept.get(_file_of(pipeline)):
        raise TerminalError(
            what="the pipeline file that this savepoint has kept is not the one that it was",
            where=f"{pipeline.name}, {file}",
            expected=f"a file with the hash {kept.get(_file_of(pipeline))}",
            found="none" if digest is None else f"one with {digest}",
            action="bring that file back from a copy; or go back with the pipeline file as it is now: --keep-file",
        )
    text = data.decode()
    return text, declared_by(settings, pipeline.name, text)


def verify_program(settings: Settings, pipeline: Pipeline, savepoint: str) -> None:
    """Checks that the next batch would go on as the batches before the savepoint did.

    Args:
        pipeline: as its file declares it, or shall.

    Raises:
        TerminalError: it would go on in another way. What says so is a file of the pipeline: see `taken`, too.
    """
    if not (found := _changed(settings, pipeline, savepoint)):
        return
    folder = Tables.of(settings, pipeline).savepoints / savepoint / TEXTS
    raise TerminalError(
        what="the pipeline's files say another thing than when this savepoint was made, so the next batch would go on "
        "in another way over its rows",
        where=f"{pipeline.name}, {savepoint}",
        expected="the same, but for columns and for where the records are",
        found=f"other: {', '.join(found)}",
        action="nothing was changed. If that is why you go back, run the same with --keep-file (in Airflow: the field "
        f"Keep file). Else bring the files back as they were ({folder} holds them), and run the same again; with "
        "--write-file, the command does that for the pipeline file",
    )


def _changed(settings: Settings, pipeline: Pipeline, savepoint: str) -> list[str]:
    kept = taken(settings, pipeline, savepoint).texts
    now = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts_of(settings, pipeline).items()}
    others = [name for name, digest in kept.items() if now.get(name, digest) != digest and name != _file_of(pipeline)]
    try:
        _, was = kept_file(settings, pipeline, savepoint)
    except TerminalError:
        return [*others, "a file that this Lakemark cannot read"]
    return [*(name for name in differing_fields(was, pipeline) if not name.startswith(_OF_NO_ROW)), *others]


def _file_of(pipeline: Pipeline) -> str:
    return f"{pipeline.name.removesuffix(LANDING)}.yaml"
