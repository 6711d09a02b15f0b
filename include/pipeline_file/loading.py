"""Finds, reads and checks pipeline files; an error names file, field, what is allowed there and what was found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from include.pipeline_file.pipeline import Pipeline
from include.pipeline_file.section import LANDING, NAME
from include.protocol.errors import PipelineFileError


def load_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Reads and checks one pipeline file.

    `${NAME}` in any string is replaced from `environment`; `${NAME:-default}` has a default, as in a shell.

    Raises:
        PipelineFileError: names file, field, what is allowed there and what was found; every problem of the file.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, [("file", "a readable text file", str(error))]) from error
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _invalid(path, [("file", "valid YAML", " ".join(str(error).split()))]) from error
    if not isinstance(data, dict):
        raise _invalid(path, [("file", "a mapping with name, source, change, target", type(data).__name__)])
    problems: list[tuple[str, str, str]] = _written_secrets(data)
    data = _interpolated(data, environment, "", problems)
    try:
        pipeline = Pipeline.model_validate(data)
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors()]
        raise _invalid(path, problems) from error
    if pipeline.name != path.stem:
        problems.append(("name", f"{path.stem}, as the file is called {path.name}", pipeline.name))
    if problems:
        raise _invalid(path, problems)
    return pipeline


def pipeline_files(folder: Path, name: str = "*") -> list[Path]:
    return sorted(folder.glob(f"{name}.yaml"))


def load_pipelines(
    folder: Path, environment: Mapping[str, str], name: str = "*"
) -> tuple[list[Pipeline], list[PipelineFileError]]:
    """Every file of the folder, or the one of that name: the valid pipelines, and what is wrong with the others."""
    pipelines, errors = [], []
    for path in pipeline_files(folder, name):
        try:
            pipelines.append(load_pipeline(path, environment))
        except PipelineFileError as error:
            errors.append(error)
    return pipelines, errors


def find_pipeline(name: str, folder: Path, environment: Mapping[str, str]) -> Pipeline:
    """The pipeline of that name, or the landing of one (`NAME__landing`); raises PipelineFileError, with the nearest
    names if there is none."""
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
        raise _invalid(path, [("file", f"one of the pipelines in {folder}: {', '.join(near) or 'none yet'}", name)])
    return load_pipeline(path, environment)


def variables_of(path: Path) -> set[str]:
    """The variables of the environment that a pipeline's file names."""
    return {match[1] for match in _VARIABLE.finditer(path.read_text())}


def _written_secrets(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """A password that stands in the file itself, where version control would keep it."""
    source = data.get("source")
    found = []
    for section in ("security", "registry") if isinstance(source, dict) else ():
        fields = source.get(section)
        password = fields.get("password") if isinstance(fields, dict) else None
        is_variable = isinstance(password, str) and re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", password)
        if password is not None and not is_variable:
            found.append((f"source.{section}.password", "${NAME}, a variable of the environment", _NOT_SHOWN))
    return found


_NOT_SHOWN = "something else, which is not shown"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _interpolated(value: Any, environment: Mapping[str, str], at: str, problems: list[tuple[str, str, str]]) -> Any:
    def replacement(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = environment.get(name, default)
        if found is None:
            problems.append((at, f"the environment variable {name} set, or a default: ${{{name}:-...}}", "not set"))
            return match.group()
        return found

    match value:
        case str():
            return _VARIABLE.sub(replacement, value)
        case dict():
            return {key: _interpolated(v, environment, f"{at}.{key}".lstrip("."), problems) for key, v in value.items()}
        case list():
            return [_interpolated(v, environment, f"{at}.{n}", problems) for n, v in enumerate(value)]
        case _:
            return value


def _problem(details: Any) -> tuple[str, str, str]:
    """(field, allowed, found) of one of pydantic's findings."""
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
        case "string_pattern_mismatch":
            return field, f"text that matches {context['pattern']}", repr(found)
        case _:
            allowed = details["msg"].removeprefix("Input should be ")
            secret = isinstance(found, dict) or field.endswith("password")
            return field, allowed, _NOT_SHOWN if secret else repr(found)


def _fields_at(location: tuple[Any, ...]) -> list[str]:
    model: Any = Pipeline
    for part in location:
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
        action=f"mend the file and check it with `lakemark validate {path.stem}`",
    )
