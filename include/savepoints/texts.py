"""The files that say what a pipeline does, as people wrote them: a savepoint keeps them."""

from __future__ import annotations

from contextlib import suppress

from include.pipeline_file import LANDING, Pipeline
from include.pipeline_file.users_file import NotRead, read_users_file
from include.settings import Settings


def texts_of(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """The texts of a pipeline's file, suites and transform, by their names in a savepoint. One that cannot be read is
    left out: the next batch says what is wrong with it."""
    name, quality = pipeline.name.removesuffix(LANDING), pipeline.quality
    places = {f"{name}.yaml": settings.pipelines / f"{name}.yaml"}
    for suite in (quality.suite, quality.table and quality.table.suite):
        if suite is not None:
            places[f"expectations/{suite}.json"] = settings.expectations / f"{suite}.json"
    if pipeline.transform is not None:
        places[f"transforms/{pipeline.transform.file}"] = settings.transforms / pipeline.transform.file
    found = {}
    for text, path in places.items():
        with suppress(FileNotFoundError, NotRead):
            found[text] = read_users_file(path, path.parent)
    return found
