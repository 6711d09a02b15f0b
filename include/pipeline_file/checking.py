"""Checks what a pipeline file holds, and finds all that is wrong with it at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from include.pipeline_file.declaration import Declaration
from include.pipeline_file.in_words import NOT_SHOWN, problem_of
from include.pipeline_file.pipeline import MISFITS, Pipeline
from include.pipeline_file.section_checks import problems_between
from include.pipeline_file.variables import VARIABLE, Written
from include.protocol.errors import Problem
from include.protocol.json_data import JsonObject

# For required fields that are wrong, so that the rest of the file can be checked, too.
_STAND_INS: Mapping[str, Any] = {
    "name": "x",
    "source": {"bootstrap_servers": "x:1", "topics": ["x"], "schema": "x INT"},
    "source.bootstrap_servers": "x:1",
    "source.schema": "x INT",
    "change": {"keys": ["x"]},
    "change.keys": ["x"],
    "target": {"table": "lake://x/x"},
    "target.table": "lake://x/x",
}
_FINDINGS_MAX = 100
_MAY_BE_LEFT_OUT = (
    "source.security",
    "source.registry",
    "transform",
    "quality",
    "sinks",
)  # sections with required fields


def checked(data: JsonObject, environment: Mapping[str, str]) -> tuple[Pipeline | None, list[Problem]]:
    """The pipeline that a file declares, or all that is wrong with it.

    Args:
        data: from YAML. environment: the values of variables, which no problem shows.
    """
    written = Written(data, environment, Pipeline)
    problems = [*_written_secrets(data), *written.problems()]
    pipeline, found = _validated(written.interpolated())
    fields = {problem.field for problem in problems}
    problems += [_as_written(problem, written) for problem in found if problem.field not in fields]
    if problems or pipeline is None:
        return None, problems
    return pipeline.shown_as(written.shown()), []


def _validated(data: JsonObject) -> tuple[Pipeline | None, list[Problem]]:
    try:
        return Pipeline.model_validate(data), []
    except ValidationError as error:
        findings = error.errors()[:_FINDINGS_MAX]
    problems = list(dict.fromkeys(chain.from_iterable(map(_problems, findings))))
    if [details["type"] for details in findings] == [MISFITS]:
        return None, problems
    # Pydantic asks what does not fit together only where no field is wrong by itself.
    return None, [*problems, *_misfits_of_the_rest(data, {_place(details["loc"]) for details in findings})]


def _problems(details: ErrorDetails) -> Sequence[Problem]:
    """What one of pydantic's findings says; our own may say several things."""
    several: Sequence[Problem] | None = details.get("ctx", {}).get("problems")
    return several or [problem_of(details, Pipeline)]


def _place(location: tuple[int | str, ...]) -> str:
    """The field of a finding: a list as a whole, and a section that may be left out as a whole."""
    names: list[str] = []
    for part in location:
        if isinstance(part, int) or ".".join(names) in _MAY_BE_LEFT_OUT:
            break
        names.append(part)
    return ".".join(names)


def _misfits_of_the_rest(data: JsonObject, wrong: Iterable[str]) -> list[Problem]:
    """What does not fit together among the fields that are right by themselves."""
    rest, left_out = copy.deepcopy(data), {*wrong}
    for place in left_out:
        *sections, name = place.split(".")
        at: Any = rest
        for section in sections:
            at = at.get(section) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.pop(name, None)
            if place in _STAND_INS:
                at[name] = copy.deepcopy(_STAND_INS[place])
    try:
        return problems_between(Declaration.model_validate(rest), without=left_out)
    except ValidationError:  # what is wrong with it is told already
        return []


def _as_written(problem: Problem, written: Written) -> Problem:
    """The problem, without what a variable holds."""
    at = written.at(problem.field)
    return problem._replace(found=repr(at)) if isinstance(at, str) and VARIABLE.search(at) else problem


def _written_secrets(data: JsonObject) -> list[Problem]:
    """Passwords that stand in the file itself, where version control would keep them."""
    found = []
    for at, password in _passwords(data):
        is_variable = isinstance(password, str) and re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", password)
        if password is not None and not is_variable:
            found.append(Problem(at, "${NAME}, a variable of the environment", NOT_SHOWN))
    return found


def _passwords(section: JsonObject, at: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in all fields of that name, wherever they are in the file."""
    for name, value in section.items():
        if name == "password":
            yield f"{at}{name}", value
        elif isinstance(value, dict):
            yield from _passwords(value, f"{at}{name}.")
