"""Finds, reads and checks pipeline files. An error names file, field, what is allowed there and what was found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from include.pipeline_file.apart import Place, clash, clashes, places_in
from include.pipeline_file.pipeline import Pipeline
from include.pipeline_file.section import LANDING, NAME
from include.pipeline_file.variables import VARIABLE, Written
from include.pipeline_file.yaml_errors import yaml_problem
from include.pipeline_file.yaml_text import NotTaken, read_yaml
from include.protocol.errors import PipelineFileError
from include.protocol.json_data import JsonObject


def load_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Reads and checks one pipeline file.

    `${NAME}` in any string is replaced from `environment`; `${NAME:-default}` has a default, as in a shell.

    Raises:
        PipelineFileError: names every problem of the file, with field, what is allowed there and what was found. It
            shows the file as it is written, and never the value of a variable.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, [("file", "a readable text file", str(error))]) from error
    try:
        data = read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:  # a ValueError: a date that does not exist
        allowed = error.allowed if isinstance(error, NotTaken) else "valid YAML"
        raise _invalid(path, [("file", allowed, yaml_problem(error))]) from None
    if not isinstance(data, dict):
        raise _invalid(path, [("file", "a mapping with name, source, change, target", type(data).__name__)])
    written = Written(data, environment)
    problems: list[tuple[str, str, str]] = _written_secrets(data)
    for at, name in written.missing():
        problems.append((at, f"the environment variable {name} set, or a default: ${{{name}:-...}}", "not set"))
    pipeline, findings = _checked(written.interpolated())
    if findings:
        problems += _shown(findings, written)
    elif pipeline is not None and pipeline.name != path.stem:
        problems.append(("name", f"{path.stem}, since the file's name is {path.name}", str(written.at("name"))))
    if problems or pipeline is None:
        raise _invalid(path, problems)  # without a cause: a traceback would show the checked values
    return pipeline.shown_as(written.shown())


def pipeline_files(folder: Path, name: str = "*") -> list[Path]:
    return sorted(folder.glob(f"{name}.yaml"))


def load_pipelines(
    folder: Path, environment: Mapping[str, str], name: str = "*"
) -> tuple[list[Pipeline], list[PipelineFileError]]:
    """Reads every file of the folder, or the one with that name. Returns the valid pipelines, and the errors of the
    others.

    If the tables of pipelines are not apart, all of these pipelines are invalid: each would harm the tables of the
    others.
    """
    pipelines, errors = [], []
    others = _clashes(folder, environment)
    for path in pipeline_files(folder, name):
        try:
            pipeline = load_pipeline(path, environment)
            _verify_apart(pipeline, path, others, environment)
            pipelines.append(pipeline)
        except PipelineFileError as error:
            errors.append(error)
    return pipelines, errors


def find_pipeline(name: str, folder: Path, environment: Mapping[str, str]) -> Pipeline:
    """The pipeline with that name, or the landing of one (`NAME__landing`).

    Raises:
        PipelineFileError: the file is not valid, or its tables are not apart from another pipeline's; or there is no
            such file, with the nearest names.
    """
    if name.endswith(LANDING):
        pipeline = find_pipeline(name.removesuffix(LANDING), folder, environment)
        if pipeline.landing is None:
            problem = ("merge_every", "a number: only such a pipeline has a landing", "nothing")
            raise _invalid(folder / f"{pipeline.name}.yaml", [problem])
        return pipeline.landing
    path = folder / f"{name}.yaml"
    if not re.fullmatch(NAME, name) or not path.exists():
        names = [file.stem for file in pipeline_files(folder)]
        near = difflib.get_close_matches(name, names) or names
        raise PipelineFileError(
            what="there is no such pipeline",
            where=str(path),
            expected=f"one of the pipelines in {folder}: {', '.join(near) or 'none yet'}",
            found=name,
            action="use one of these names, or write that file (docs/pipeline-file.md)",
        )
    pipeline = load_pipeline(path, environment)
    _verify_apart(pipeline, path, _clashes(folder, environment), environment)
    return pipeline


def _clashes(folder: Path, environment: Mapping[str, str]) -> Mapping[str, set[str]]:
    """The files whose tables may not be apart, by name. It only skims them, so that a job, which needs one pipeline,
    does not pay for a check of all files."""
    return clashes({path.stem: list(_skimmed(path, environment)) for path in pipeline_files(folder)})


def _skimmed(path: Path, environment: Mapping[str, str]) -> Iterator[Place]:
    with suppress(FileNotFoundError):  # the file has just been removed
        yield from places_in(Written(_with_tables(path, path.stat().st_mtime_ns), environment).interpolated())


@lru_cache(maxsize=10_000)
def _with_tables(path: Path, changed_at: int) -> JsonObject:
    """The sections of a file that name tables, as written; none if the file cannot be read."""
    try:
        data = read_yaml(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    sections = ("target", "archive", "transform")
    return {name: data[name] for name in sections if name in data} if isinstance(data, dict) else {}


def _verify_apart(
    pipeline: Pipeline, path: Path, others: Mapping[str, set[str]], environment: Mapping[str, str]
) -> None:
    """Raises PipelineFileError for the first table that is not apart from the tables of a valid file. A file that is
    not valid does not run, and its own error comes first."""
    for name in sorted(others.get(pipeline.name, ())):
        other_path = path.with_name(f"{name}.yaml")
        try:
            other = load_pipeline(other_path, environment)
        except PipelineFileError:
            continue
        mine, theirs = (zip(p.places, p.for_people.places, strict=True) for p in (pipeline, other))
        for (place, shown), (there, shown_there) in product(mine, theirs):
            if clash(place, there):
                allowed = "a table that no other pipeline writes, and that lies neither inside nor around another one's"
                found = f"{shown.table!r}, while {other_path.name} has {shown_there.table!r} as {there.field}"
                raise _invalid(path, [(place.field, allowed, found)])


def variables_of(path: Path) -> set[str]:
    """The environment variables that a pipeline file names."""
    return {match[1] for match in VARIABLE.finditer(path.read_text())}


def _written_secrets(data: JsonObject) -> list[tuple[str, str, str]]:
    """The problems of passwords that stand in the file itself, where version control would keep them."""
    source = data.get("source")
    if not isinstance(source, dict):
        return []
    found = []
    for section in ("security", "registry"):
        fields = source.get(section)
        password = fields.get("password") if isinstance(fields, dict) else None
        is_variable = isinstance(password, str) and re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", password)
        if password is not None and not is_variable:
            found.append((f"source.{section}.password", "${NAME}, a variable of the environment", _NOT_SHOWN))
    return found


_NOT_SHOWN = "something else, which is not shown"
_LOGIN = re.compile(r"\S*:\S*@\S*")  # `user:password@host` in a text of the file itself
# Pydantic's own messages follow from the fields' types alone; messages of validators may contain parts of values.
_OF_TYPES = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}


def _checked(data: JsonObject) -> tuple[Pipeline | None, list[ErrorDetails]]:
    """The pipeline, or the findings of pydantic."""
    try:
        return Pipeline.model_validate(data), []
    except ValidationError as error:
        return None, error.errors()


def _shown(findings: list[ErrorDetails], written: Written) -> Iterator[tuple[str, str, str]]:
    """(field, allowed, found) for every finding.

    It shows no text that was made from the value of a variable: each text comes from the same finding about the masked
    file. If that file has no such finding, because only the variable's value leads to it, it shows only the place and
    its type.
    """
    masked = {_identity(details): details for details in _checked(written.masked())[1]}
    for details in findings:
        same = masked.get(_identity(details))
        field, allowed, found = map(written.unmasked, _problem(same or details))
        at = written.at(field)
        if same is None:
            if details["type"] not in _OF_TYPES:
                allowed = "what is allowed there, and fits the rest of the file"
            shown = _NOT_SHOWN if at is None or isinstance(at, dict) or _is_secret(field) else repr(at)
            found = f"{shown} (what variables hold is not shown)"
        if isinstance(at, str) and VARIABLE.fullmatch(at):
            found = repr(at)
        yield field, _LOGIN.sub("...", allowed), _LOGIN.sub("...", found)


def _identity(details: ErrorDetails) -> tuple[object, ...]:
    """Identifies a finding, independent of the value."""
    return details["loc"], details["type"], details.get("ctx", {}).get("field")


def _is_secret(field: str) -> bool:
    return field.endswith(("password", "source.security", "source.registry"))


def _problem(details: ErrorDetails) -> tuple[str, str, str]:
    """(field, allowed, found) for one of pydantic's findings."""
    context = details.get("ctx", {})
    field = context.get("field") or ".".join(map(str, details["loc"])) or "file"
    found = context.get("found", details["input"])
    match details["type"]:
        case "extra_forbidden":
            known = _fields_at(details["loc"][:-1])
            near = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            return field, f"one of {', '.join(known)}{hint}", "an unknown field"
        case "missing":
            return field, "a value; the field is required", "nothing"
        case "literal_error":
            return field, str(context["expected"]), repr(found)
        case "address":
            return field, details["msg"], _NOT_SHOWN
        case "string_pattern_mismatch":
            return field, f"text that matches {context['pattern']}", repr(found)
        case _:
            allowed = details["msg"].removeprefix("Input should be ")
            secret = isinstance(found, dict) or (_is_secret(field) and "found" not in context)
            return field, allowed, _NOT_SHOWN if secret else repr(found)


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Pipeline
    for part in location:
        if isinstance(part, int):  # an index of a list, whose type names the items
            continue
        info = next(f for n, f in model.model_fields.items() if (f.alias or n) == part)
        model = next((t for t in get_args(info.annotation) if t is not type(None)), info.annotation)
    return [field.alias or name for name, field in model.model_fields.items()]


def _invalid(path: Path, problems: list[tuple[str, str, str]]) -> PipelineFileError:
    first_field, first_allowed, first_found = problems[0]
    more = "".join(f"; also {field}: allowed {allowed}, found {found}" for field, allowed, found in problems[1:])
    return PipelineFileError(
        what="the pipeline file is not valid",
        where=f"{path}, field {first_field}",
        expected=first_allowed,
        found=first_found + more,
        action=f"correct the file and check it with `lakemark validate {path.stem}`",
    )
