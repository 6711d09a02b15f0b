"""Finds the file of a transform, and checks it as far as that is possible without Spark."""

from __future__ import annotations

from pathlib import Path

import sqlglot

from include.pipeline_file import Pipeline
from include.protocol.errors import TransformError
from include.settings import Settings


def transform_path(settings: Settings, pipeline: Pipeline) -> Path:
    """Where the transform's file lies. Raises TransformError if there is no such file."""
    assert pipeline.transform is not None, "the caller has checked it"
    path = settings.transforms / pipeline.transform.file
    if not path.exists():
        raise transform_error(pipeline, str(path), "a file of that name", "none")
    return path


def verify_transform(settings: Settings, pipeline: Pipeline) -> None:
    """Checks that the file is valid Python or SQL. Spark finds all other errors.

    Raises:
        TransformError: names pipeline, file and line.
    """
    if pipeline.transform is None:
        return
    path = transform_path(settings, pipeline)
    if path.suffix == ".py":
        try:
            compile(path.read_text(), str(path), "exec")
        except SyntaxError as error:
            raise transform_error(pipeline, f"{path}, line {error.lineno}", "Python", error.msg) from error
        return
    try:
        statements = sqlglot.parse(path.read_text(), read="spark")
    except sqlglot.errors.ParseError as error:
        first = error.errors[0]
        where = f"{path}, line {first['line']}"
        raise transform_error(pipeline, where, "SQL", f"{first['description']} near {first['highlight']!r}") from error
    if len(statements) != 1 or not isinstance(statements[0], sqlglot.exp.Query):
        raise transform_error(pipeline, str(path), "one SELECT", f"{len(statements)} statements, or another one")


def transform_error(pipeline: Pipeline, where: str, expected: str, found: str) -> TransformError:
    """The error for a transform that cannot be run."""
    return TransformError(
        what="the transform cannot be run",
        where=f"{pipeline.name}, {where}",
        expected=expected,
        found=found,
        action="correct the transform, then clear the merge task; nothing has landed in the target",
    )
