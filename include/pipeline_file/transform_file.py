"""Finds the file of a transform, and checks it as far as that is possible without Spark."""

from __future__ import annotations

from pathlib import Path

import sqlglot

from include.pipeline_file import Pipeline
from include.pipeline_file.users_file import NotRead, read_users_file
from include.protocol.errors import TransformError
from include.settings import Settings


def transform_path(settings: Settings, pipeline: Pipeline) -> Path:
    """Where the transform's file lies. Raises TransformError if there is no such file."""
    assert pipeline.transform is not None, "the caller has checked it"
    path = settings.transforms / pipeline.transform.file
    if not path.exists():
        raise transform_error(pipeline, str(path), "a file of that name", "none")
    return path


def read_transform(settings: Settings, pipeline: Pipeline) -> str:
    """The text of the transform. Raises TransformError: there is no such file, or it cannot be read."""
    path = transform_path(settings, pipeline)
    try:
        return read_users_file(path, settings.transforms)
    except NotRead as error:
        raise transform_error(pipeline, str(path), error.allowed, error.found) from error


def verify_transform(settings: Settings, pipeline: Pipeline) -> None:
    """Checks that the file is valid Python or SQL. Spark finds all other errors.

    Raises:
        TransformError: names pipeline, file and line.
    """
    if pipeline.transform is None:
        return
    path, text = transform_path(settings, pipeline), read_transform(settings, pipeline)
    if path.suffix == ".py":
        try:
            compile(text, str(path), "exec")
        except SyntaxError as error:
            raise transform_error(pipeline, f"{path}, line {error.lineno}", "Python", error.msg) from error
        except (ValueError, RecursionError, MemoryError) as error:  # a null character, or too deep
            raise transform_error(pipeline, str(path), "Python", str(error) or type(error).__name__) from error
        return
    try:
        statements = sqlglot.parse(text, read="spark")
    except RecursionError:
        return  # Spark itself says whether it is SQL
    except sqlglot.errors.TokenError as error:
        raise transform_error(pipeline, str(path), "SQL", str(error)) from error
    except sqlglot.errors.ParseError as error:
        first = error.errors[0]
        where = f"{path}, line {first['line']}"
        raise transform_error(pipeline, where, "SQL", f"{first['description']} near {first['highlight']!r}") from error
    if len(statements) != 1 or not isinstance(statements[0], sqlglot.exp.Query):
        raise transform_error(pipeline, str(path), "one SELECT", f"{len(statements)} statements, or another one")


def transform_error(pipeline: Pipeline, where: str, expected: str, found: str, evidence: str = "") -> TransformError:
    """The error for a transform that cannot be run. Args: evidence: see `LakemarkError`."""
    return TransformError(
        what="the transform cannot be run",
        where=f"{pipeline.name}, {where}",
        expected=expected,
        found=found,
        action="correct the transform, then clear the merge task with what follows it; nothing has landed",
        evidence=evidence,
    )
